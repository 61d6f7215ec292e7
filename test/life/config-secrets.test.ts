import { writeFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { type GatewayProcess, startProcess } from "../support/process.ts";
import { until } from "../support/until.ts";

const TOKEN = "admin-token-0123456789-abcdef";
const VIEWER = "viewer-token-0123456789-abcdef";

/** Each secret of it has one of these marks, whole or in pieces. */
const MARKS = /CANARY|canary|Q2FuYXJ5|p3pp|admin-token-01/;

const PLUGIN = `import { z } from "zod";
export default class Own {
  static options = z.looseObject({ mode: z.enum(["strict", "lenient"]).default("strict"), size: z.number().default(1) });
  access() {}
}
`;

const providers = (credentials: string) => `providers:
  demo: { url: "demo:" }
  acme: { url: https://api.acme.test/v1, protocol: openai-chat, credential: ${credentials} }
`;
const YAML = `x-anchor: &c2 "CANARYanchor4\\u002dCANARYabcdef"
admin:
  listen: 127.0.0.1:0
  viewer: $VIEWER
  token: "${TOKEN.slice(0, 22)}\\
    CANARY7"
${providers(`['CANARYlist8''CANARYabcdefgh', *c2, $OTHER]`)}models:
  echo: { targets: [demo:echo], price: { input: 1.5, output: 2 } }   # the cheap one
limits: { default: { budget: $10/month } }
plugins:
  opentelemetry: { headers: { authorization: "Basic Q2FuYXJ5OnNlY3JldA==", x-honeycomb-team: CANARYhc1 }, sample: 0 }
  own:
    from: ./own.ts
    mode: lenient
    nested: { pepper: "p3pp", list: ["CANARY in a list", canary-plain], wait: 15s }
    dsn: "CANARY-SECRET***"
    other: $OTHER
chains: { read: [auth, own] }
`;

/** Something wrong at a line with secrets, or next to one. */
const MISTAKES: readonly ((yaml: string) => string)[] = [
  (yaml) => yaml.replace('token: "', 'token: [] "'),
  (yaml) => yaml.replace("CANARY7", 'CANARY7" x: "'),
  (yaml) => yaml.replace("*c2, $OTHER", "*c2, *gone"),
  (yaml) => yaml.replace("protocol: openai-chat, credential", "protocl: openai-chat, credential"),
  (yaml) => yaml.replace("x-anchor: ", "x-anchor:"),
  (yaml) => yaml.replace('"\n', '"\nlistem: 1\n'),
  (yaml) => yaml.replace("sample: 0", "sample: all"),
  (yaml) => yaml.replace("sample: 0", 'sample: "CANARY of a sample"'),
  (yaml) => yaml.replace('authorization: "Basic', "authorization: @Basic"),
  (yaml) => yaml.replace('3JldA=="', "3JldA=="),
  (yaml) => yaml.replace("x-honeycomb-team: CANARYhc1", "x-honeycomb-team: [CANARYhc1]"),
  (yaml) => yaml.replace("mode: lenient", "mode: canary"),
  (yaml) => yaml.replace("wait: 15s", "wait: 15s: 3"),
  (yaml) => yaml.replace("dsn:", "size: CANARY1\n    dsn:"),
  (yaml) => yaml.replace("dsn:", "size: p3pp\n    dsn:"),
  (yaml) => yaml.replace("dsn:", "\tdsn:"),
  (yaml) => yaml.replace("other: $OTHER", "other: $GONE"),
];

const asked = async ({ admin }: GatewayProcess, path: string, token = VIEWER, method = "GET") => {
  const headers = {
    authorization: `Bearer ${token}`,
    ...(method === "POST" && { "content-type": "application/json" }),
  };
  const response = await fetch(`${admin}${path}`, { method, headers, ...(method === "POST" && { body: "{}" }) });
  return { status: response.status, text: await response.text() };
};

t.test("no reader of the admin side finds a secret of gateway.yaml, in any spelling and place", async (t) => {
  const env = { VIEWER, OTHER: "CANARY-of-the-environment" };
  const gateway = await startProcess(t, YAML, { env, files: { "own.ts": PLUGIN } });
  const { status, text } = await asked(gateway, "/api/config");
  t.equal(status, 200);
  t.notMatch(text, MARKS);
  const { text: shown } = JSON.parse(text) as { text: string };
  for (const readable of [
    "url: https://api.acme.test/v1, protocol: openai-chat, credential: ['***************************', *c2, $OTHER]",
    "  echo: { targets: [demo:echo], price: { input: 1.5, output: 2 } }   # the cheap one\n",
    "limits: { default: { budget: $10/month } }\n",
    '{ authorization: "***** ********************", x-honeycomb-team: ********* }, sample: 0 }',
    "    from: ./own.ts\n    mode: lenient\n",
    '    nested: { pepper: "****", list: ["****** ** * ****", ************], wait: 15s }\n',
    "    other: $OTHER\nchains: { read: [auth, own] }\n",
  ])
    t.ok(shown.includes(readable), readable);

  const token = `${TOKEN.slice(0, 22)}CANARY7`;
  const original = `listen: 127.0.0.1:0\nstore: { ledger: "sqlite:./gateway.db" }\nwarm_up: off\n${YAML}`;
  for (const mistake of MISTAKES) {
    const yaml = mistake(original);
    t.not(yaml, original);
    writeFileSync(join(gateway.folder, "gateway.yaml"), yaml);
    const reload = await asked(gateway, "/api/reload", token, "POST");
    t.equal(reload.status, 422, yaml);
    t.match(reload.text, "gateway.yaml:");
    const diff = await asked(gateway, "/api/config/diff");
    t.equal(diff.status, 422);
    for (const { text } of [reload, diff, await asked(gateway, "/api/now"), await asked(gateway, "/api/config")])
      t.notMatch(text, MARKS, String(mistake));
  }
  gateway.child.kill("SIGHUP");
  const trail = async () => (await asked(gateway, "/api/audit")).text;
  await until(async () => (await trail()).includes("SIGHUP"), "the signal");
  t.equal((await trail()).split("gateway.yaml:").length > MISTAKES.length, true);
  t.notMatch(await trail(), MARKS);
  t.equal(await gateway.end(), 0);
  t.match(gateway.text, "gateway.yaml:");
  t.notMatch(gateway.text, MARKS);
});
