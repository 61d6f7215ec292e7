import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import t from "tap";
import { parse } from "yaml";
import { folderFor } from "../support/folder.ts";
import { startProcess } from "../support/process.ts";
import { askedIn, SCRIPTS, TEXT } from "../support/scripted.ts";
import { httpUpstream, type SeenRequest } from "../support/upstream.ts";

const COMMAND = fileURLToPath(new URL("../../bin/model-gateway", import.meta.url));
const THEIRS = readFileSync(new URL("../support/foreign/litellm.yaml", import.meta.url), "utf8");
const MASTER = "sk-master-0123456789abcdef";
/** The variables that the file names, each with a value of its own; and one for the key that stands in it. */
const ENV: Record<string, string> = {
  ...Object.fromEntries(
    [...THEIRS.matchAll(/os\.environ\/(\w+)/g)].map(([, name = ""]) => [name, `secret-of-${name}-0123456789`]),
  ),
  OPENAI_API_KEY_FROM_FILE: "secret-of-the-file-0123456789",
  LITELLM_MASTER_KEY: MASTER,
};

/** The file with every vendor at a local address, as for vendors behind a proxy. */
const atAddress = (text: string, origin: string): string =>
  text
    .replaceAll(
      /https?:\/\/(?:acme-eu\.openai\.azure\.com|llm\.acme\.example|10\.0\.0\.\d:8000|127\.0\.0\.1:11434)/g,
      origin,
    )
    .replaceAll(/^ +litellm_params:\n(?!(?: {6}.*\n)*? {6}api_base: )/gm, `$&      api_base: ${origin}\n`);

const modelIn = ({ url, body }: SeenRequest): string =>
  /\/models\/([^:]+):/.exec(url)?.[1] ?? (JSON.parse(body.toString()) as { model: string }).model;

const credentialIn = ({ rawHeaders }: SeenRequest): string | undefined => {
  const at = rawHeaders.findIndex((name) => /^(?:authorization|x-api-key|api-key|x-goog-api-key)$/i.test(name));
  return rawHeaders[at + 1]?.replace(/^Bearer /, "");
};

t.test("a LiteLLM file of 40 models is converted and started, and every model of it answers", async (t) => {
  let failing: string | undefined;
  const upstream = await httpUpstream((request, reply) => {
    if (modelIn(request) === failing) return reply.writeHead(500).end("{}");
    const { vendor, stream } = askedIn(request);
    return stream
      ? reply.writeHead(200, { "content-type": "text/event-stream" }).end(SCRIPTS[vendor].frames("text").join(""))
      : reply.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(SCRIPTS[vendor].whole("text")));
  });
  t.teardown(() => upstream.close());
  const folder = folderFor(t);
  writeFileSync(join(folder, "config.yaml"), atAddress(THEIRS, upstream.origin.origin));
  const env = { PATH: process.env["PATH"] ?? "", ...ENV };
  const { stdout } = await promisify(execFile)(COMMAND, ["init", "--from", "litellm", "config.yaml"], {
    cwd: folder,
    env,
  });
  t.match(stdout, /^wrote gateway\.yaml/);
  const ours = readFileSync(join(folder, "gateway.yaml"), "utf8");
  const running = await startProcess(t, ours.replace("127.0.0.1:8080", "127.0.0.1:0"), { env: ENV });
  const ask = async (path: string, body: object) => {
    const headers = { authorization: `Bearer ${MASTER}`, "content-type": "application/json" };
    const response = await fetch(running.url + path, { method: "POST", headers, body: JSON.stringify(body) });
    return { status: response.status, text: await response.text() };
  };
  const messages = [{ role: "user", content: "hi" }];

  const { models } = parse(ours) as { models: Record<string, { targets: (string | { to: string })[] }> };
  const names = Object.keys(models).filter((name) => !/embed|image/.test(name));
  t.ok(names.length > 25);
  for (const model of names) {
    t.match(await ask("/v1/chat/completions", { model, messages }), { status: 200, text: TEXT }, model);
    const expected = models[model]?.targets.map((target) =>
      (typeof target === "string" ? target : target.to).replace(/^[^:]*:/, ""),
    );
    const seen = upstream.seen.at(-1) as SeenRequest;
    t.ok(expected?.includes(modelIn(seen)), `${model}: the provider is asked for its own name`);
  }
  const listed = await fetch(`${running.url}/v1/models`, { headers: { authorization: `Bearer ${MASTER}` } });
  const { data } = (await listed.json()) as { data: { id: string }[] };
  t.same(
    Object.keys(models).filter((name) => !data.some(({ id }) => id === name)),
    [],
    "every model is listed",
  );
  const credentials = new Set(upstream.seen.map(credentialIn));
  for (const name of ["OPENAI_API_KEY", "OPENAI_API_KEY_TEAM_B", "OPENAI_API_KEY_FROM_FILE", "ANTHROPIC_API_KEY"])
    t.ok(credentials.has(ENV[name]), name);
  t.notOk(credentials.has(MASTER), "the client's key stays here");

  const stream = await ask("/v1/messages", { model: "best", messages, max_tokens: 64, stream: true });
  t.equal(stream.status, 200, "an alias, in another protocol");
  t.match(stream.text, /event: message_stop/);
  failing = "claude-opus-5";
  t.match(await ask("/v1/chat/completions", { model: "smart", messages }), { status: 200, text: TEXT });
  t.match(modelIn(upstream.seen.at(-1) as SeenRequest), /^gpt-5/, "its fallback");
  t.equal(await running.end(), 0);
});
