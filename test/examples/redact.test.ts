import t, { type Test } from "tap";
import Redact from "../../examples/redact.ts";
import { drive } from "../../src/testing.ts";
import { CLIENTS, eventsOf } from "../support/four-clients.ts";
import { asking } from "../support/key.ts";
import { repeating } from "../support/repeating.ts";
import { countTurns } from "../support/turns.ts";
import type { ProtocolName } from "../support/vendor-sdks.ts";
import { aroundSteps, STEP, startExamples } from "./example.ts";

const ADDRESS = "jane.doe+news@example-home.co.uk";
const TOLD = `Write to ${ADDRESS}, "me@home.org" & <address-9>.`;
const NAMES = Object.keys(CLIENTS) as ProtocolName[];

/** A gateway that redacts, with a model behind each protocol that repeats what the user wrote. */
async function redacting(t: Test) {
  const upstream = await repeating(t);
  const origin = upstream.origin.origin;
  const providers = NAMES.map(
    (name) => `${name}: { url: "${origin}/${name === "gemini" ? "v1beta" : "v1"}", speaks: [${name}] }`,
  );
  const running = await startExamples(
    t,
    `providers: { ${providers.join(", ")} }
models: { ${NAMES.map((name) => `${name}: { targets: [${name}:x] }`).join(", ")} }
`,
    "[sse, auth, redact, scrub, models, rewrite, usage]",
    { redact: {} },
  );
  const ask = async (client: ProtocolName, model: ProtocolName, stream: boolean, body: object) => {
    const { path } = CLIENTS[client] as (typeof CLIENTS)[string];
    const text = JSON.stringify(body);
    const asked = { method: "POST", headers: asking(), body: text };
    const response = await fetch(`${running.url}${path(model, stream)}`, asked);
    return { status: response.status, text: await response.text(), sent: upstream.seen.at(-1)?.body.toString() ?? "" };
  };
  return ask;
}

t.test("the provider receives placeholders, the client the original values", async (t) => {
  const ask = await redacting(t);
  for (const client of NAMES)
    for (const model of NAMES) {
      const { ask: first, with: inModel, read, streamed } = CLIENTS[client] as (typeof CLIENTS)[string];
      const about = `${client} → ${model}`;
      for (const stream of [false, true]) {
        const { status, text, sent } = await ask(client, model, stream, inModel(first(TOLD, "f"), model, stream));
        t.equal(status, 200, `${about}: ${text}`);
        t.notMatch(sent, /jane|home/, `${about}: nothing of it was sent`);
        t.match(sent, /<address-1>.*<address-2>.*<address-3>/s, about);
        const answer = stream ? streamed(eventsOf(text)) : read(JSON.parse(text)).text;
        t.equal(answer, `You wrote: ${TOLD}`, `${about}, ${stream ? "streamed" : "whole"}`);
        t.notMatch(text, /<address-[12]/, `${about}: in thoughts and calls too`);
        if (!stream) t.same(read(JSON.parse(text)).calls[0]?.args, { city: TOLD }, about);
      }
    }
});

t.test("a request without an address passes unchanged, and so does its response", async (t) => {
  const ask = await redacting(t);
  const { ask: first, with: inModel } = CLIENTS["openai-chat"] as (typeof CLIENTS)[string];
  const plain = await ask("openai-chat", "openai-chat", true, inModel(first("Hello", "f"), "openai-chat", true));
  t.match(plain.text, /"content":"ell"/);
});

t.test("a long word takes no more than linear time", async (t) => {
  const ask = await redacting(t);
  const { ask: first, with: inModel } = CLIENTS["openai-chat"] as (typeof CLIENTS)[string];
  const long = `${"a".repeat(300_000)} me@home.org`;
  const { sent } = await ask("openai-chat", "openai-chat", false, inModel(first(long, "f"), "openai-chat", false));
  t.match(sent, /a <address-1>/);
});

t.test("an address that is repeated has one placeholder, also among others", async (t) => {
  const ask = await redacting(t);
  const { ask: first, with: inModel, read } = CLIENTS["openai-chat"] as (typeof CLIENTS)[string];
  const told = "a@b.org c@d.org a@b.org <address-3> e@f.org";
  const { text, sent } = await ask("openai-chat", "gemini", false, inModel(first(told, "f"), "gemini", false));
  t.match(sent, "<address-1> <address-2> <address-1> <address-3> <address-4>");
  t.equal(read(JSON.parse(text)).text, `You wrote: ${told}`, "also what looked like a placeholder");
});

t.test("a large text is searched in many turns, and addresses are found wherever those end", async (t) => {
  await using driven = await drive(Redact);
  const protocol = "openai-chat";
  for (const text of [...aroundSteps(ADDRESS), ...aroundSteps(`x@y.org,${ADDRESS}`)]) {
    const { sent, text: answer } = await driven.ask({ protocol, text }, (seen) => seen.texts("user")[0] ?? "");
    t.match(sent[0]?.texts("user")[0], /[ .]<address-1>(?:,<address-2>)? \./);
    t.ok(answer === text, "and restored");
  }
  const long = `${"a".repeat(64)}@b.org`;
  for (const text of aroundSteps(`b${long}`)) {
    const { sent } = await driven.ask({ protocol, text });
    t.ok(sent[0]?.texts("user")[0] === text, "what is none stays, wherever a turn ends");
  }
  const large = "a@b.c ".repeat((64 * STEP) / 6);
  t.ok((await countTurns(t, () => driven.ask({ protocol, text: large }))) > 64);
  const many = Array.from({ length: 65 }, () => ({ role: "user", content: `${"b".repeat(STEP)}` }));
  t.ok((await countTurns(t, () => driven.ask({ protocol, body: { messages: many } }))) > 64, "so are many texts");
});

t.test("a name of very many parts is no failure; a request with very many addresses is refused", async (t) => {
  await using driven = await drive(Redact);
  const parts = await driven.ask({ protocol: "openai-chat", text: `a@b${".b".repeat(4_000_000)}` });
  t.equal(parts.status, 200);
  t.match(parts.sent[0]?.texts("user")[0]?.slice(0, 20), /^<address-1>\.b\.b/);
  const text = `${Array.from({ length: 100_000 }, (_, i) => `${i}@b.org`).join(" ")} 0@b.org`;
  t.match(await driven.ask({ protocol: "openai-chat", text }), { status: 200 }, "repeated ones do not count");
  t.match(await driven.ask({ protocol: "openai-chat", text: `${text} more@b.org` }), {
    status: 413,
    sent: { length: 0 },
  });
});

t.test("members that name the user are left out if an address is in them, and forms are refused", async (t) => {
  await using driven = await drive(Redact);
  const named = {
    user: ADDRESS,
    prompt_cache_key: ADDRESS,
    metadata: { by: ["x", ADDRESS] },
    safety_identifier: "u-1",
  };
  for (const protocol of ["openai-chat", "openai-responses"]) {
    const { sent } = await driven.ask({ protocol, body: named });
    t.match(sent[0]?.json(), { safety_identifier: "u-1" }, protocol);
    t.notMatch(sent[0]?.body.toString(), ADDRESS);
  }
  const { sent } = await driven.ask({ protocol: "anthropic-messages", body: { metadata: { user_id: ADDRESS } } });
  t.equal(sent[0]?.json().metadata, undefined);
  const labelled = await driven.ask({ protocol: "gemini", body: { labels: { who: ADDRESS } } });
  t.equal(labelled.sent[0]?.json().labels, undefined);
  const part = (name: string, value: string) =>
    `--b\r\ncontent-disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`;
  const form = await driven.ask({
    protocol: "openai-images",
    path: "/v1/images/edits",
    headers: { "content-type": "multipart/form-data; boundary=b" },
    body: `${part("model", "any")}${part("prompt", `Write ${ADDRESS}`)}--b--\r\n`,
  });
  t.match(form, {
    status: 415,
    sent: { length: 0 },
    error: { code: "unsupported_media_type", origin: "redact.request" },
  });
});

t.test(
  "a placeholder of a former request, which the provider has stored, is not restored as another address",
  async (t) => {
    await using driven = await drive(Redact, { gateway: { share: "all" } });
    const named = [
      ["openai-responses", { previous_response_id: "resp_1" }],
      ["openai-responses", { conversation: "conv_1" }],
      ["gemini", { cachedContent: "cachedContents/1" }],
    ] as const;
    for (const [protocol, body] of named) {
      const about = JSON.stringify(body);
      const asked = { protocol, body, text: `Now tell ${ADDRESS}.` };
      const { text, sent } = await driven.ask(asked, (seen) => `<address-1>, ${seen.texts("user").at(-1)}`);
      t.notMatch(sent[0]?.body.toString(), ADDRESS, about);
      t.equal(text, `<address-1>, Now tell ${ADDRESS}.`, about);
    }
  },
);
