import t from "tap";
import { load, MINIMAL_CONFIG } from "./fixture.ts";

const PROVIDERS = MINIMAL_CONFIG.replace("demo:", "up: { url: https://a/v1, protocol: gemini }, demo:");

/** What is told of a file that can be used: `line:column message` each. */
const warnings = async (...[t, yaml]: Parameters<typeof load>) =>
  (await load(t, PROVIDERS + yaml)).warnings.map(({ line, column, message }) => `${line}:${column} ${message}`);

const OPEN = 'no plugin of the chain checks keys, so anybody may use the providers\' accounts; put "auth" into it';

t.test("the default chains have no findings", async (t) => {
  t.same(await warnings(t, "paths: { /x/*: { pass: up }, /y: { protocol: gemini, use: llm } }\n"), []);
});

t.test("paths whose chain has no authentication are reported, once for each chain", async (t) => {
  t.same(await warnings(t, "chains: { open: [sse, models, rewrite] }\npaths:\n  /v1/messages: { use: open }\n"), [
    `3:11 /v1/messages, /v1/messages/count_tokens: ${OPEN}`,
  ]);
  t.same(await warnings(t, "paths: { /x/*: { pass: up, use: [usage] } }\n"), [`3:28 /x/*: ${OPEN}`]);
  t.same(await warnings(t, "paths: { /v1/models: { use: [] } }\n"), [
    '3:24 /v1/models: no plugin of the chain checks keys, so anybody may read it; put "auth" into it',
  ]);
  const served = "plugins: { region: { region: eu } }\npaths: { /x: { serve: region, use: [] } }\n";
  t.same(await warnings(t, served), [], "an operator's own page may be public");
});

t.test("an operator's own plugin may check keys and name models", async (t) => {
  t.same(await warnings(t, "paths: { /x: { protocol: gemini, use: [gate, rewrite] } }\n"), []);
  t.same(await warnings(t, "paths: { /x: { protocol: gemini, use: [scrub, models, rewrite] } }\n"), [
    `3:34 /x: ${OPEN}`,
  ]);
});

t.test("a chain of a protocol that names no model is reported", async (t) => {
  t.same(await warnings(t, "paths: { /x: { protocol: gemini, use: [auth, rewrite] } }\n"), [
    '3:34 /x: no plugin of the chain names a model, so every request that no plugin answers is refused; put "models" into it',
  ]);
});

t.test("a plugin without effect on pass paths is reported at its position", async (t) => {
  const idle = 'plugin "models" does nothing on /x/*: a path with "pass" runs only access, send and done';
  t.same(
    await warnings(
      t,
      "paths: { /x/*: { pass: up, use: [auth, models, rewrite, region, usage] } }\nplugins: { region: { region: eu } }\n",
    ),
    [`3:40 ${idle}`],
  );
  t.same(await warnings(t, "chains:\n  pass: [auth, models]\npaths: { /x/*: { pass: up } }\n"), [`4:16 ${idle}`]);
});

t.test("a chain that no path uses is reported, with a similar name", async (t) => {
  t.same(await warnings(t, "chains: { lmm: [auth], mine: [auth], pass: [auth] }\n"), [
    '3:11 no path uses chain "lmm", did you mean "llm"?',
    '3:24 no path uses chain "mine"; there are llm, read, pass',
  ]);
  t.same(await warnings(t, "chains: { mine: [auth] }\npaths: { /v1/models: { use: mine } }\n"), []);
});
