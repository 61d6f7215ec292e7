# docker build -t model-gateway .
# docker run --read-only --tmpfs /tmp -v gateway:/var/lib/model-gateway -p 127.0.0.1:8080:8080 -e OPENAI_API_KEY model-gateway
FROM node:26-slim AS packages
WORKDIR /opt/model-gateway
COPY package.json package-lock.json ./
# What a store of several gateways, sign-in and traces need comes along, for nothing can be installed later: of what only tests need
# the packages that are also peers, at the versions that are tested. The image has its Node: those that come as packages go.
# Leaving out all that is optional would leave out what reads TypeScript, of which each processor has its own.
RUN node -e "const its = require('./package.json'); for (const name in its.peerDependencies) if (!name.startsWith('@types/')) its.dependencies[name] = its.devDependencies[name]; delete its.devDependencies; fs.writeFileSync('package.json', JSON.stringify(its))" \
 && npm install --no-audit --no-fund \
 && rm -rf node_modules/node-linux-* node_modules/node-darwin-* node_modules/node-bin-* node_modules/.bin node_modules/bintrees/test \
 && find node_modules \( -name '*.map' -o -name '*.d.ts' -o -name '*.d.cts' -o -name '*.d.mts' \) -delete

FROM node:26-slim AS system
# A gateway.yaml that says nothing of a store keeps it in data/ beside itself: that is the volume.
RUN groupadd --system --gid 65532 gateway \
 && useradd --system --key SYS_UID_MAX=65532 --uid 65532 --gid 65532 --home-dir /var/lib/model-gateway --shell /usr/sbin/nologin gateway \
 && install -d -o gateway -g gateway -m 0700 /var/lib/model-gateway \
 && install -d /etc/model-gateway && ln -s /var/lib/model-gateway /etc/model-gateway/data \
 && cd /usr/local && rm -rf lib/node_modules bin/npm bin/npx bin/corepack bin/yarn* bin/docker-entrypoint.sh include share *.md /opt/yarn-* \
 && ln -s /opt/model-gateway/bin/model-gateway bin/model-gateway

# What was taken out above would stay in the layers of node:26-slim, 5 MB: the system is copied as it is now.
FROM scratch
COPY --from=system / /
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin NODE_ENV=production
COPY --from=packages /opt/model-gateway/node_modules /opt/model-gateway/node_modules
COPY . /opt/model-gateway
COPY deploy/container/gateway.yaml /etc/model-gateway/
USER 65532:65532
# Where each verb looks for its gateway.yaml: `docker exec NAME model-gateway keys create me`.
WORKDIR /etc/model-gateway
VOLUME /var/lib/model-gateway
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=15s \
  CMD ["node", "/opt/model-gateway/deploy/container/healthcheck.mjs"]
ENTRYPOINT ["model-gateway"]
CMD ["run"]
