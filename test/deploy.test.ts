import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import t, { type Test } from "tap";
import { parse, parseAllDocuments } from "yaml";
import { loadConfig } from "../src/config/load.ts";
import { findExtensions } from "../src/loaded-config.ts";
import { freePort } from "./support/free-port.ts";
import { asking } from "./support/key.ts";
import { listen } from "./support/listen.ts";
import { startBalancer, startDeployedNginx, startPair } from "./support/nginx.ts";
import { startProcess } from "./support/process.ts";
import { send, UNTIL_ANSWERED } from "./support/raw.ts";
import { until } from "./support/until.ts";
import { json, startVendor } from "./support/vendor.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const text = (file: string): string => readFileSync(join(ROOT, file), "utf8");
const { version, scripts } = JSON.parse(text("package.json")) as { version: string; scripts: Record<string, string> };

type Dependencies = Record<"dependencies" | "peerDependencies" | "devDependencies", Record<string, string>>;

/** What check finds in a gateway.yaml. */
async function checked(yaml: string, env: NodeJS.ProcessEnv = {}) {
  const folder = mkdtempSync(join(tmpdir(), "gateway-deploy-"));
  t.teardown(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, "gateway.yaml"), yaml);
  return loadConfig(join(folder, "gateway.yaml"), await findExtensions(folder), env, folder);
}

t.test(
  "the image's own gateway.yaml is valid, listens for the container and keeps its store on the volume",
  async (t) => {
    const config = await checked(text("deploy/container/gateway.yaml"));
    t.same(config.listen, { host: "0.0.0.0", port: 8080 });
    t.equal(config.store.ledger, "/var/lib/model-gateway/gateway.db");
  },
);

t.test("everything that the Dockerfile copies exists, and nothing else is copied", async (t) => {
  const file = text("Dockerfile");
  const kept =
    text(".dockerignore")
      .match(/^!(.+)$/gm)
      ?.map((line) => line.slice(1)) ?? [];
  for (const each of kept) t.ok(existsSync(join(ROOT, each)), each);
  const { files } = JSON.parse(text("package.json")) as { files: string[] };
  const unused = ["types", "CONTRIBUTING.md", "llms.txt"];
  t.same(
    files.filter((each) => !each.startsWith("!") && !kept.includes(each) && !unused.includes(each)),
    [],
    "everything that the package runs with is in the image too",
  );
  for (const [, named = ""] of file.matchAll(/^COPY (?!--from|\. )(\S+)/gm)) t.ok(existsSync(join(ROOT, named)), named);
  for (const [, named = ""] of file.matchAll(/\/opt\/model-gateway\/(deploy\/\S+?|bin\/\S+?)[\s"]/g))
    t.ok(existsSync(join(ROOT, named)), named);
  t.notMatch(file, /--omit=optional/, "the TypeScript transformer is an optional package for each processor");
  const { optionalDependencies = {} } = JSON.parse(text("package.json")) as Record<string, Record<string, string>>;
  const removed = [...file.matchAll(/node_modules\/(node-\S+)\*/g)].map(([, start = ""]) => start);
  for (const name of Object.keys(optionalDependencies))
    t.ok(
      removed.some((start) => name.startsWith(start)),
      `${name} is removed: the image has its own Node`,
    );
  t.match(file, /^WORKDIR \/etc\/model-gateway$/m, "a verb without --config finds the gateway.yaml that is served");
  t.match(file, /^USER 65532:65532$/m);
  t.match(file, /^HEALTHCHECK /m);
  t.notMatch(file, /COPY .*\.env/);
});

t.test("the packages for stores, sign-in and traces are in the image, at the tested versions", async (t) => {
  const [, script = ""] = /node -e "(const its[^"]+)"/.exec(text("Dockerfile")) ?? [];
  const folder = t.testdir({ "package.json": text("package.json") });
  const { status, stderr } = spawnSync(process.execPath, ["-e", script], { cwd: folder, encoding: "utf8" });
  t.equal(status, 0, stderr);
  const { devDependencies, ...kept } = JSON.parse(text("package.json")) as Dependencies;
  const { "@types/node": _types, ...peers } = kept.peerDependencies;
  const needed = Object.keys(peers).map((name) => [name, devDependencies[name]]);
  t.same(JSON.parse(readFileSync(join(folder, "package.json"), "utf8")), {
    ...kept,
    dependencies: { ...kept.dependencies, ...Object.fromEntries(needed) },
  });
});

t.test("the health check exits with 0 while the gateway is ready, else with 1", async (t) => {
  const probe = (place: string) => {
    const child = spawnSync(process.execPath, [join(ROOT, "deploy/container/healthcheck.mjs")], {
      env: { GATEWAY_ADMIN: place },
    });
    return child.status;
  };
  const gateway = await startProcess(
    t,
    'providers: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }\n',
  );
  t.equal(probe(/admin +http:\/\/(\S+)/.exec(gateway.text)?.[1] ?? ""), 0);
  t.equal(probe("127.0.0.1:1"), 1);
});

t.test("the compose file with one gateway builds this checkout, read-only, and allows time to stop", async (t) => {
  const { services, volumes } = parse(text("deploy/compose/one.yaml")) as {
    services: { gateway: Record<string, unknown> };
    volumes: object;
  };
  t.match(services.gateway, { build: "../..", read_only: true, cap_drop: ["ALL"], stop_grace_period: "11m" });
  t.same(Object.keys(volumes), ["data"]);
});

t.test("the compose file with three gateways refers to existing files, and they count and bill together", async (t) => {
  const { networks, services, volumes } = parse(text("deploy/compose/compose.yaml"), { merge: true }) as {
    services: Record<string, { volumes?: string[]; networks?: Record<string, { ipv4_address: string }> }>;
    networks: { default: { ipam: { config: { subnet: string }[] } } };
    volumes: object;
  };
  const gateways = Object.keys(services).filter((name) => name.startsWith("gateway-"));
  t.same(gateways, ["gateway-1", "gateway-2", "gateway-3"]);
  t.same(
    [...text("deploy/compose/nginx.conf").matchAll(/server (\S+):8080/g)].map(([, name]) => name),
    gateways,
  );
  const journals = gateways.map((name) => services[name]?.volumes?.[1]);
  t.equal(new Set(journals).size, 3, "each has its own journal");
  for (const name of gateways) t.match(services[name], { read_only: true, stop_grace_period: "11m" });
  const addresses = gateways.map((name) => services[name]?.networks?.["default"]?.ipv4_address);
  t.equal(new Set(addresses).size, 3, "nginx finds a gateway that was started again at its own address");
  for (const address of addresses) t.match(address, /^10\.213\.0\.\d+$/);
  for (const [from = ""] of Object.values(services).flatMap(({ volumes = [] }) =>
    volumes.map((each) => each.split(":")),
  ))
    t.ok(from.startsWith("./") ? existsSync(join(ROOT, "deploy/compose", from)) : Object.hasOwn(volumes, from), from);
  const env = { DATABASE_URL: "postgres://gateway:pw@postgres/gateway", REDIS_URL: "redis://redis:6379" };
  const config = await checked(text("deploy/compose/gateway.yaml"), env);
  t.match(config, { instances: 3, store: { limits: "redis://redis:6379" }, listen: { host: "0.0.0.0", port: 8080 } });
  t.equal(config.store.postgres?.journal, "/var/lib/model-gateway/journal", "on its volume");
  const { subnet } = networks.default.ipam.config[0] ?? { subnet: "" };
  t.same(config.trust, [subnet], "clients of a company's own networks cannot claim another address");
  t.same(
    config.warnings.filter(({ message }) => !/is off/.test(message)),
    [],
  );
});

interface Manifest {
  apiVersion: string;
  kind: string;
  metadata: { name: string };
  data?: Record<string, string>;
  spec: Record<string, unknown>;
}

t.test("the Kubernetes manifests are consistent, and their gateway.yaml is valid", async (t) => {
  const documents = parseAllDocuments(text("deploy/kubernetes/model-gateway.yaml"));
  for (const { errors } of documents) t.same(errors, []);
  const manifests = documents.map((each) => each.toJS() as Manifest);
  t.same(
    manifests.map(({ apiVersion, kind }) => `${apiVersion} ${kind}`),
    ["v1 ConfigMap", "v1 PersistentVolumeClaim", "apps/v1 Deployment", "v1 Service"],
  );
  const [map, , deployment, service] = manifests as [Manifest, Manifest, Manifest, Manifest];
  const config = await checked(map.data?.["gateway.yaml"] ?? "");
  t.equal(config.listen.host, "0.0.0.0");
  t.match(deployment.spec, {
    strategy: { type: "Recreate" },
    selector: service.spec["selector"] ? { matchLabels: service.spec["selector"] as object } : {},
    template: {
      metadata: { labels: service.spec["selector"] as object },
      spec: {
        terminationGracePeriodSeconds: 630,
        securityContext: { runAsNonRoot: true },
        containers: [{ image: `model-gateway:${version}`, securityContext: { readOnlyRootFilesystem: true } }],
      },
    },
  });
  const { template } = deployment.spec as {
    template: { spec: { containers: { volumeMounts: { name: string }[] }[]; volumes: { name: string }[] } };
  };
  t.same(
    template.spec.containers[0]?.volumeMounts.map(({ name }) => name).sort(),
    template.spec.volumes.map(({ name }) => name).sort(),
  );
});

t.test(
  "the chart's values match its schema, its version is the package's, and its gateway.yaml is valid",
  async (t) => {
    const folder = "deploy/helm/model-gateway";
    const chart = parse(text(`${folder}/Chart.yaml`)) as Record<string, string>;
    t.match(chart, { apiVersion: "v2", version, appVersion: version });
    const values = parse(text(`${folder}/values.yaml`)) as Record<string, unknown>;
    const schema = JSON.parse(text(`${folder}/values.schema.json`)) as { properties: Record<string, unknown> };
    t.same(
      Object.keys(values).filter((name) => !(name in schema.properties)),
      [],
    );
    const used = globSync(`${folder}/templates/*.yaml`, { cwd: ROOT }).flatMap((file) =>
      [...text(file).matchAll(/\.Values\.(\w+)/g)].map(([, name]) => name),
    );
    t.same(
      [...new Set(used)].filter((name) => !(String(name) in values)),
      [],
    );
    t.same(
      Object.keys(values).filter((name) => !used.includes(name)),
      [],
      "each value does something",
    );
    await checked(String(values["config"]));
    const journal = "journal: /var/lib/model-gateway/journal";
    for (const file of ["docs/deploy.md", `${folder}/values.yaml`])
      t.ok(text(file).includes(journal), `a pod cannot write beside gateway.yaml: ${file}`);
  },
);

/** Of a release: YAML takes it for a number where it is not quoted. */
const NAME = "123";

/** Runs the chart through helm; undefined where GATEWAY_TEST_HELM names none, after skipping the test. */
function helm(t: Test) {
  const program = process.env["GATEWAY_TEST_HELM"];
  if (program === undefined) {
    t.pass("skipped: GATEWAY_TEST_HELM names no helm");
    return undefined;
  }
  const run = (...args: string[]) => spawnSync(program, args, { cwd: ROOT, encoding: "utf8" });
  const template = (...args: string[]) => run("template", NAME, "deploy/helm/model-gateway", ...args);
  const rendered = (...args: string[]) => {
    const { stdout, status, stderr } = template(...args);
    t.equal(status, 0, stderr);
    return stdout;
  };
  const manifests = (...args: string[]) => parseAllDocuments(rendered(...args)).map((each) => each.toJS() as Manifest);
  return { run, template, rendered, manifests };
}

/** Values of the chart with which it must be right. */
const VALUES = [
  [],
  ["--set", "secret=,persistence.enabled=false,replicas=3"],
  ["--set", "persistence.storageClass=fast,service.type=NodePort,resources=null", "--set-string", "image.tag=12"],
  ["--set-json", 'pod={"imagePullSecrets":[{"name":"r"}],"tolerations":[{"key":"x","operator":"Exists"}]}'],
  ["--set-json", 'podAnnotations={"prometheus.io/scrape":"true"}', "--set", "replicas=0"],
  ["--set", "persistence.enabled=false,autoscaling.enabled=true,podDisruptionBudget.enabled=true"],
  [
    "--set",
    "replicas=3,persistence.enabled=false,podDisruptionBudget.enabled=true,podDisruptionBudget.maxUnavailable=25%",
  ],
];

t.test("the chart renders with and without persistence, if helm is installed", async (t) => {
  const chart = helm(t);
  if (!chart) return;
  const lint = chart.run("lint", "--strict", "deploy/helm/model-gateway");
  t.equal(lint.status, 0, lint.stdout + lint.stderr);
  const plain = chart.manifests();
  t.same(plain.map(({ kind }) => kind).sort(), ["ConfigMap", "Deployment", "PersistentVolumeClaim", "Service"]);
  await checked(plain.find(({ kind }) => kind === "ConfigMap")?.data?.["gateway.yaml"] ?? "");
  const several = chart.manifests("--set", "persistence.enabled=false", "--set", "replicas=3");
  t.match(several.find(({ kind }) => kind === "Deployment")?.spec, {
    replicas: 3,
    strategy: { type: "RollingUpdate" },
  });
  t.notOk(several.some(({ kind }) => kind === "PersistentVolumeClaim"));
  const config = "  # indented\n  listen: 0.0.0.0:8080\n";
  const file = join(t.testdir({ config }), "config");
  const taken = chart.manifests("--set-file", `config=${file}`).find(({ kind }) => kind === "ConfigMap");
  t.equal(taken?.data?.["gateway.yaml"], config, "gateway.yaml is unchanged in the ConfigMap");
});

t.test("the chart scales by CPU and limits disruptions where its values say so, if helm is installed", async (t) => {
  const chart = helm(t);
  if (!chart) return;
  const of = (kind: string, values: string) =>
    chart.manifests("--set", `persistence.enabled=false,${values}`).find((each) => each.kind === kind);
  const deployment = { apiVersion: "apps/v1", kind: "Deployment", name: NAME };
  t.match(of("HorizontalPodAutoscaler", "autoscaling.enabled=true,autoscaling.cpu=150"), {
    apiVersion: "autoscaling/v2",
    spec: {
      scaleTargetRef: deployment,
      minReplicas: 2,
      maxReplicas: 6,
      metrics: [{ resource: { name: "cpu", target: { averageUtilization: 150 } } }],
    },
  });
  const scaled = of("Deployment", "autoscaling.enabled=true")?.spec ?? {};
  t.match(scaled, { strategy: { type: "RollingUpdate" } });
  t.notOk("replicas" in scaled, "an upgrade does not reset what the autoscaler has set");
  const budget = of("PodDisruptionBudget", "replicas=3,podDisruptionBudget.enabled=true");
  t.match(budget, { apiVersion: "policy/v1", spec: { maxUnavailable: 1 } });
  const { template } = (of("Deployment", "replicas=3")?.spec ?? {}) as { template?: { metadata: { labels: object } } };
  t.match(budget?.spec["selector"], { matchLabels: template?.metadata.labels ?? {} });
});

t.test("the chart refuses values that cannot work, with the reason, if helm is installed", async (t) => {
  const chart = helm(t);
  if (!chart) return;
  for (const [values, why] of [
    ["replica=3", /additional properties 'replica' not allowed/],
    ["replicas=3", /need a store that they share/],
    ["pod.nodeselector.disk=ssd", /must be one of/],
    ["image.repository=null", /missing property 'repository'/],
    ["persistence=null", /missing property 'persistence'/],
    ["persistence.size=much", /does not match pattern/],
    ["service.type=Public", /must be one of/],
    ["service.port=99999", /maximum/],
    ["autoscaling.enabled=true", /need a store that they share/],
    ["autoscaling.enabled=true,autoscaling.maxReplicas=1", /minReplicas is more than maxReplicas/],
    ["autoscaling.enabled=true,persistence.enabled=false,resources=null", /resources\.requests\.cpu, which is missing/],
    ["autoscaling.max=3", /additional properties 'max' not allowed/],
    ["podDisruptionBudget.maxUnavailable=0", /minimum/],
    ["podDisruptionBudget.maxUnavailable=half", /does not match pattern/],
  ] as const) {
    const { status, stderr } = chart.template("--set", values);
    t.not(status, 0, values);
    t.match(stderr, why, values);
  }
});

t.test(
  "Kubernetes' own schemas accept manifests and chart, unknown members refused, if they are available",
  async (t) => {
    const program = process.env["GATEWAY_TEST_KUBERNETES_VALIDATE"];
    if (program === undefined) return t.pass("skipped: GATEWAY_TEST_KUBERNETES_VALIDATE names no kubernetes-validate");
    const folder = t.testdir();
    const files = [join(ROOT, "deploy/kubernetes/model-gateway.yaml")];
    const chart = helm(t);
    for (const [i, values] of chart ? VALUES.entries() : []) {
      files.push(join(folder, `${i}.yaml`));
      writeFileSync(join(folder, `${i}.yaml`), chart?.rendered(...values) ?? "");
    }
    for (const version of ["1.29", "1.37"]) {
      const { status, stdout, stderr } = spawnSync(program, ["--strict", "--quiet", "-k", version, ...files], {
        encoding: "utf8",
      });
      t.equal(status, 0, `${version}: ${stdout}${stderr}`);
    }
    const wrong = text("deploy/kubernetes/model-gateway.yaml").replace(
      "readOnlyRootFilesystem",
      "readOnlyRootFileSystem",
    );
    writeFileSync(join(folder, "wrong.yaml"), wrong);
    t.not(spawnSync(program, ["--strict", join(folder, "wrong.yaml")]).status, 0, "a name that is wrong by one letter");
  },
);

t.test("systemd accepts unit and socket, with little exposure, if it is installed", async (t) => {
  if (!existsSync("/usr/bin/systemd-analyze"))
    return t.not(process.env["GATEWAY_TEST_SYSTEMD"], "required", "skipped: systemd-analyze is not installed");
  const folder = mkdtempSync(join(tmpdir(), "gateway-units-"));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const unit = text("deploy/systemd/model-gateway.service")
    .replaceAll("/opt/model-gateway", ROOT.replace(/\/$/, ""))
    .replace(/^User=.*$/m, "User=daemon");
  t.match(unit, /^LogRateLimitIntervalSec=0$/m, "journald drops no line of a request");
  mkdirSync(join(folder, "units"));
  writeFileSync(join(folder, "units/model-gateway.service"), unit);
  writeFileSync(join(folder, "units/model-gateway.socket"), text("deploy/systemd/model-gateway.socket"));
  const files = ["service", "socket"].map((kind) => join(folder, `units/model-gateway.${kind}`));
  const { status, stdout, stderr } = spawnSync("systemd-analyze", ["verify", "--man=no", ...files], {
    encoding: "utf8",
  });
  const ours = (stdout + stderr).split("\n").filter((line) => line.includes("model-gateway"));
  t.same(ours, []);
  t.equal(status, 0, stderr);
  const { stdout: open, status: exposed } = spawnSync(
    "systemd-analyze",
    ["security", "--offline=true", "--threshold=25", "--no-pager", files[0] ?? ""],
    { encoding: "utf8" },
  );
  t.equal(exposed, 0, /Overall.*/.exec(open)?.[0] ?? open);
});

t.test("each service manager waits longer than drain, which includes linger", async (t) => {
  const { drain = 0, linger = 0 } = await checked(
    "providers: { demo: { url: 'demo:' } }\nmodels: { echo: { targets: [demo:echo] } }\n",
  );
  t.ok(linger < drain);
  const seconds = (file: string, pattern: RegExp) => Number(pattern.exec(text(file))?.[1]);
  const [compose, grace] = [/stop_grace_period: (\d+)m/, /terminationGracePeriod(?:Seconds)?: (\d+)/];
  for (const [file, waits] of [
    ["deploy/systemd/model-gateway.service", seconds("deploy/systemd/model-gateway.service", /TimeoutStopSec=(\d+)/)],
    ["deploy/compose/one.yaml", 60 * seconds("deploy/compose/one.yaml", compose)],
    ["deploy/compose/compose.yaml", 60 * seconds("deploy/compose/compose.yaml", compose)],
    ["deploy/kubernetes/model-gateway.yaml", seconds("deploy/kubernetes/model-gateway.yaml", grace)],
    ["deploy/helm/model-gateway/values.yaml", seconds("deploy/helm/model-gateway/values.yaml", grace)],
  ] as const) {
    t.ok(waits > drain / 1000, file);
    t.match(text(file), /onger than `drain`, which (?:counts from SIGTERM and )?includes `linger`/, file);
  }
});

t.test("the block for nginx on a page is the tested file", async (t) => {
  t.ok(text("docs/deploy.md").includes(`\`\`\`nginx\n${text("deploy/nginx/gateway.conf")}\`\`\``));
});

t.test("headers that clients name with an underscore pass each block for nginx", async (t) => {
  const port = await listen(
    t,
    createServer((request, response) => response.end(request.headers["session_id"])),
  );
  const started = [startDeployedNginx(t, port), startPair(t, [port, port]), startBalancer(t, [port, port, port])];
  for (const nginx of await Promise.all(started)) {
    if (!nginx) return;
    const answer = await fetch(`http://127.0.0.1:${nginx.port}/`, { headers: { session_id: "s-1" } });
    t.equal(await answer.text(), "s-1", "Codex names the conversation so");
  }
});

t.test("a health check by HTTP/1.0 without Host is answered behind nginx too", async (t) => {
  const yaml = 'providers: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }\n';
  const { port } = await startProcess(t, yaml);
  const nginx = await startDeployedNginx(t, port);
  for (const to of [port, ...(nginx ? [nginx.port] : [])])
    t.same((await send(to, "GET /readyz HTTP/1.0\r\n\r\n", UNTIL_ANSWERED)).statuses, [200]);
});

t.test("two gateways behind nginx lose no request when one of them stops and restarts", async (t) => {
  const vendor = await startVendor(
    t,
    json({
      id: "x",
      object: "chat.completion",
      choices: [{ index: 0, message: { role: "assistant", content: "ok" }, finish_reason: "stop" }],
    }),
  );
  const yaml = `linger: 5s\nproviders: { up: { url: "${vendor.url}/v1", protocol: openai-chat } }\nmodels: { m: { targets: [up:m] } }\n`;
  const one = await startProcess(t, `listen: 127.0.0.1:${await freePort()}\n${yaml}`);
  const two = await startProcess(t, yaml);
  const nginx = await startPair(t, [one.port, two.port]);
  if (!nginx) return;
  const statuses: number[] = [];
  let going = true;
  const client = async () => {
    while (going) {
      const answer = await fetch(`http://127.0.0.1:${nginx.port}/v1/chat/completions`, {
        method: "POST",
        headers: asking(),
        body: JSON.stringify({ model: "m", messages: [{ role: "user", content: "Hello" }] }),
      }).catch(() => undefined);
      statuses.push(answer?.status ?? 0);
      await answer?.text();
    }
  };
  const clients = Array.from({ length: 8 }, client);
  const count = async (more: number) => {
    const enough = statuses.length + more;
    await until(() => statuses.length >= enough);
  };
  await count(100);
  one.child.kill("SIGTERM");
  await Promise.all([once(one.child, "close"), count(200)]);
  await count(100);
  const again = await startProcess(t, `listen: 127.0.0.1:${one.port}\n${yaml}`);
  t.equal(again.port, one.port);
  await count(200);
  going = false;
  await Promise.all(clients);
  t.same(
    statuses.filter((status) => status !== 200),
    [],
    `one of ${statuses.length}`,
  );
  t.equal(vendor.requests.length, statuses.length, "and calls the provider once for each");
});

t.test("a release is packed and signed by pinned steps, with minimal permissions", async (t) => {
  interface Step {
    readonly uses?: string;
    readonly run?: string;
  }
  const { on, permissions, jobs } = parse(text(".github/workflows/release.yml")) as {
    on: unknown;
    permissions: unknown;
    jobs: Record<string, { permissions: unknown; steps: readonly Step[] }>;
  };
  t.same(on, { push: { tags: ["v*"] } });
  t.same(permissions, {});
  const { release } = jobs;
  t.same(release?.permissions, { contents: "write", "id-token": "write", attestations: "write" });
  const steps = release?.steps ?? [];
  const used = steps.flatMap(({ uses = [] }) => uses);
  for (const action of used)
    t.match(action, /^actions\/[\w-]+@[0-9a-f]{40}$/, "the forge's own actions, at one commit");
  t.ok(used.some((action) => action.startsWith("actions/attest@")));
  const runs = steps.flatMap(({ run = [] }) => run);
  const order = [".ci/run", "npm run --silent release:check", "npm pack"];
  t.same(
    runs.filter((run) => order.includes(run)),
    order,
    "nothing is packed without a test",
  );
  t.ok(statSync(join(ROOT, ".ci/run")).mode & 0o100, ".ci/run exists and is executable");
  const called = runs.flatMap((run) => [...run.matchAll(/npm run (?:--\S+ )*(\S+)/g)].map(([, script = ""]) => script));
  t.same(
    called.filter((script) => !Object.hasOwn(scripts, script)),
    [],
    "every called script exists",
  );
  const named = runs.find((run) => run.startsWith("test "))?.replace("$GITHUB_REF_NAME", `v${version}`) ?? "false";
  t.equal(spawnSync("sh", ["-c", named], { cwd: ROOT }).status, 0, "the tag of this version is accepted");
  t.not(spawnSync("sh", ["-c", named.replace(`v${version}`, "v9.9.9")], { cwd: ROOT }).status, 0, "another's is not");
});
