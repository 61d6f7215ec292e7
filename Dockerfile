# docker build -t model-gateway .
# docker run --read-only --tmpfs /tmp -v gateway:/var/lib/model-gateway -p 127.0.0.1:8080:8080 -e OPENAI_API_KEY model-gateway
FROM node:26-slim AS packages
WORKDIR /opt/model-gateway
COPY package.json package-lock.json ./
# The image has its Node: the one that comes along as a package is taken out again. Leaving out all that is optional would leave
# out what reads TypeScript, of which each processor has its own.
RUN npm ci --omit=dev --no-audit --no-fund && npm cache clean --force \
 && rm -rf node_modules/node-linux-* node_modules/node-darwin-* node_modules/node-bin-* node_modules/.bin
# What stores of several gateways need, at the versions that are tested, where Node looks next: npm ci leaves out what only tests need.
RUN node -p "Object.entries(require('./package.json').devDependencies).filter(([name]) => ['postgres', 'redis'].includes(name)).map((each) => each.join('@')).join(' ')" \
  | xargs npm install --prefix /opt --no-audit --no-fund && npm cache clean --force

FROM node:26-slim
ENV NODE_ENV=production
RUN groupadd --system --gid 65532 gateway \
 && useradd --system --uid 65532 --gid 65532 --home-dir /var/lib/model-gateway --shell /usr/sbin/nologin gateway \
 && install -d -o gateway -g gateway -m 0700 /var/lib/model-gateway \
 && rm -rf /usr/local/lib/node_modules /usr/local/bin/npm /usr/local/bin/npx /usr/local/bin/corepack /usr/local/include /opt/yarn-*
COPY --from=packages /opt/model-gateway/node_modules /opt/model-gateway/node_modules
COPY --from=packages /opt/node_modules /opt/node_modules
COPY . /opt/model-gateway
COPY deploy/container/gateway.yaml /etc/model-gateway/gateway.yaml
RUN ln -s /opt/model-gateway/bin/model-gateway /usr/local/bin/model-gateway
USER 65532:65532
WORKDIR /var/lib/model-gateway
VOLUME /var/lib/model-gateway
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=15s \
  CMD ["node", "/opt/model-gateway/deploy/container/healthcheck.mjs"]
ENTRYPOINT ["model-gateway"]
CMD ["run", "--config", "/etc/model-gateway/gateway.yaml"]
