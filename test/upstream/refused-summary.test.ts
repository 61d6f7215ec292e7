import t from "tap";
import { HeaderList } from "../../src/wire/headers.ts";
import { asking, KEY, startGateway } from "../support/gateway.ts";
import { httpUpstream } from "../support/upstream.ts";

const REFUSAL = {
  message: "Your organization must be verified to generate reasoning summaries. Please go to: …",
  type: "invalid_request_error",
  param: "reasoning.summary",
  code: "unsupported_value",
};

t.test("an account that gets no summaries of reasoning is asked again without them, and later never", async (t) => {
  const upstream = await httpUpstream(({ body }, reply) => {
    const [, value] = /"summary":"([^"]*)"/.exec(body.toString()) ?? [];
    const isRefused = value !== undefined;
    reply.writeHead(isRefused ? 400 : 200, { "content-type": "application/json" });
    const content = [{ type: "output_text", text: "Done.", annotations: [] }];
    const output = [{ id: "msg_1", type: "message", status: "completed", role: "assistant", content }];
    const answer = { id: "resp_1", object: "response", status: "completed", output };
    const error = value === "auto" ? REFUSAL : { ...REFUSAL, message: `Invalid value: '${value}'.` };
    reply.end(JSON.stringify(isRefused ? { error } : answer));
  });
  t.teardown(() => upstream.close());
  const { url } = await startGateway(
    t,
    `providers:
  up: { url: "${upstream.origin.origin}/v1", speaks: [openai-responses], idempotency: X-Once }
  other: { url: "${upstream.origin.origin}/v1", speaks: [openai-responses] }
models: { m: { targets: [up:m] }, n: { targets: [other:m] } }
`,
  );
  const ask = async (path: string, request: object, more: Record<string, string> = {}) => {
    const body = JSON.stringify(request);
    const response = await fetch(`${url}${path}`, { method: "POST", headers: asking(more), body });
    const asked = upstream.seen.splice(0);
    return {
      status: response.status,
      dropped: response.headers.get("gateway-dropped"),
      text: await response.text(),
      efforts: asked.map(({ body }) => (JSON.parse(body.toString()) as { reasoning?: object }).reasoning),
      keys: new Set(asked.map(({ rawHeaders }) => new HeaderList(rawHeaders).get("x-once"))).size,
    };
  };
  const own = { model: "m", input: "Hi", reasoning: { effort: "low", summary: "auto" } };
  const gemini = {
    contents: [{ role: "user", parts: [{ text: "Hi" }] }],
    generationConfig: { thinkingConfig: { includeThoughts: true, thinkingLevel: "low" } },
  };
  const toGemini = (model: string, more?: Record<string, string>) =>
    ask(`/v1beta/models/${model}:generateContent`, gemini, { ...more, "x-goog-api-key": KEY });
  const strict = { "gateway-strict": "1" };
  t.match(await toGemini("n", strict), { status: 400, text: /must be verified/, efforts: { length: 1 } });
  const dropped = "generationConfig.thinkingConfig.includeThoughts";
  const [asked, again] = [{ effort: "low", summary: "auto" }, { effort: "low" }];
  const odd = { ...own, reasoning: { summary: "I must be verified" } };
  t.match(
    await ask("/v1/responses", odd),
    { status: 400, text: /must be verified/ },
    "the vendor repeats a client's words",
  );
  t.match(await toGemini("m"), { status: 200, dropped, text: /Done\./, efforts: [asked, again], keys: 2 });
  t.match(await toGemini("m"), { status: 200, dropped, efforts: [again] });
  const without = await ask(
    "/v1beta/models/m:generateContent",
    { contents: gemini.contents },
    { "x-goog-api-key": KEY },
  );
  t.match(without, { status: 200, dropped: null }, "nothing is lost that was not asked for");
  t.match(
    await ask("/v1/responses", own),
    { status: 400, text: /must be verified/, efforts: [asked] },
    "its own client",
  );
  t.match(await toGemini("m", strict), { status: 400, text: /nothing may be dropped/, efforts: { length: 0 } });
});
