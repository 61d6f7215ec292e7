import t, { type Test } from "tap";
import { asking, startGateway } from "../support/gateway.ts";
import { httpUpstream } from "../support/upstream.ts";

const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT = `00-${TRACE}-00f067aa0ba902b7-01`;

/** What a provider has got of a request with these headers, and the log of it. */
async function passed(t: Test, yaml: string, headers: Record<string, string>) {
  const upstream = await httpUpstream();
  t.teardown(() => upstream.close());
  const { url, log } = await startGateway(
    t,
    `providers:
  other: { url: "${upstream.origin.origin}/v1", protocol: anthropic-messages }
  up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat], forward: [x-own${yaml.includes("state") ? ", tracestate" : ""}] }
models: { plain: { targets: [up:fine] }, foreign: { targets: [other:fine] } }
paths: { /v1/audio/*: { pass: up } }
${yaml.includes("off") ? "trace: off" : ""}
`,
  );
  const body = JSON.stringify({ model: "plain", messages: [{ role: "user", content: "hi" }] });
  await (await fetch(`${url}/v1/chat/completions`, { method: "POST", headers: asking(headers), body })).text();
  const translated = body.replace("plain", "foreign");
  await (
    await fetch(`${url}/v1/chat/completions`, { method: "POST", headers: asking(headers), body: translated })
  ).text();
  const form = asking({ ...headers, "content-type": "audio/wav" });
  const passing = await fetch(`${url}/v1/audio/transcriptions`, { method: "POST", headers: form, body: "bytes" });
  t.equal(passing.status, 200, await passing.text());
  const told = upstream.seen.map(({ rawHeaders }) => {
    const at = (name: string) => rawHeaders[rawHeaders.findIndex((each) => each.toLowerCase() === name) + 1];
    const has = (name: string) => rawHeaders.some((each) => each.toLowerCase() === name);
    return [has("traceparent") ? at("traceparent") : undefined, has("tracestate") ? at("tracestate") : undefined];
  });
  const ids = log.lines.filter(({ message }) => message === "exchange").map(({ fields }) => fields["trace_id"]);
  return { told, ids };
}

t.test(
  "a caller's traceparent is passed on unchanged and its trace is in the log; its tracestate is not passed on",
  async (t) => {
    const { told, ids } = await passed(t, "", { traceparent: PARENT, tracestate: "dd=t.usr.id:canary" });
    t.same(told, [
      [PARENT, undefined],
      [PARENT, undefined],
      [PARENT, undefined],
    ]);
    t.same(ids, [TRACE, TRACE, TRACE]);
  },
);

t.test("a tracestate is passed on where forward lists it, as long as it is valid", async (t) => {
  const { told } = await passed(t, "state", { traceparent: PARENT, tracestate: "a=1,b=2" });
  t.same(told[0], [PARENT, "a=1,b=2"]);
  const { told: wrong } = await passed(t, "state", { traceparent: PARENT, tracestate: "no list" });
  t.same(wrong[0], [PARENT, undefined]);
});

t.test("an invalid traceparent is not passed on", async (t) => {
  const { told, ids } = await passed(t, "state", { traceparent: "00-canary-1-01", tracestate: "a=1" });
  for (const each of told) t.same(each, [undefined, undefined]);
  t.same(ids, [undefined, undefined, undefined]);
});

t.test("trace: off does not pass it on, and the log has it all the same", async (t) => {
  const { told, ids } = await passed(t, "off", { traceparent: PARENT });
  for (const each of told) t.same(each, [undefined, undefined]);
  t.same(ids, [TRACE, TRACE, TRACE]);
});
