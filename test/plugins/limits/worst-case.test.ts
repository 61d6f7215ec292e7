import { randomBytes } from "node:crypto";
import t from "tap";
import { imagesIn } from "../../../plugins/limits/worst-case.ts";
import { asking, startGateway } from "../../support/gateway.ts";
import { httpUpstream } from "../../support/upstream.ts";

const base64 = (bytes: number) => randomBytes(bytes).toString("base64");
const body = (...parts: unknown[]) =>
  Buffer.from(JSON.stringify({ model: "m", messages: [{ role: "user", content: parts }] }));
const picture = (data: string, type = "image/png") => ({
  type: "image_url",
  image_url: { url: `data:${type};base64,${data}` },
});
const text = { type: "text", text: "What do you see? ".repeat(400) };

/** In pieces of so many bytes. */
const cut = (whole: Buffer, size: number): Buffer[] =>
  Array.from({ length: Math.ceil(whole.length / size) }, (_, i) => whole.subarray(i * size, (i + 1) * size));

t.test("images are recognised by samples of the text, in one piece and in several", async (t) => {
  const [one, two] = [base64(30_000), base64(200_000)];
  const whole = body(text, picture(one), text, picture(two, "image/jpeg"), text);
  const found = imagesIn([whole]);
  t.equal(found?.count, 2);
  const bytes = one.length + two.length + "data:image/png;base64,data:image/jpeg;base64,".length;
  t.equal(found?.bytes, bytes);
  for (const size of [65_536, 50_000, 8192]) {
    const pieces = imagesIn(cut(whole, size));
    if (pieces) t.same(pieces, found, `pieces of ${size}`);
  }
  t.same(imagesIn([body(text)]), { count: 0, bytes: 0 });
});

t.test("base64 that is not certainly an image's is left to the conversation's reader", async (t) => {
  const data = base64(30_000);
  const others: Record<string, Buffer> = {
    "a text that looks like a picture": body({ type: "text", text: `data:image/png;base64,${data}` }),
    "a text of letters": body({ type: "text", text: data }),
    "a sound": body({ type: "input_audio", input_audio: { data, format: "wav" } }),
    "a file": body({ type: "file", file: { file_data: `data:application/pdf;base64,${data}` } }),
    "a picture that is none": body(picture(`${data} and then many words `.padEnd(90_000, "word "))),
    "a picture beside a sound": body(picture(data), { type: "input_audio", input_audio: { data, format: "wav" } }),
  };
  for (const [name, whole] of Object.entries(others)) t.equal(imagesIn([whole]), undefined, name);
});

const ALL = "[openai-chat, openai-completions, openai-responses, anthropic-messages, gemini]";
/** Bodies that ask for 5,000 tokens in all ways, as they are spelled here; the model gives 100. */
const LONGER: readonly (readonly [path: string, body: string])[] = [
  ["/v1/chat/completions", '{"model":"m", "max_tokens":5000,"messages":[],"max_completion_tokens": "5_000" }'],
  ["/v1/completions", '{"max_tokens" : 5000, "model":"m","prompt":"a"}'],
  ["/v1/responses", '{"model":"m","input":"a","max_output_tokens":5000}'],
  ["/v1/messages", '{"model":"m","messages":[],"max_tokens":5e3}'],
  ["/v1beta/models/m:generateContent", '{"contents":[],"generationConfig":{"a":[1], "maxOutputTokens":5000}}'],
  ["/v1beta/models/m:generateContent", '{"generation_config":{"max_output_tokens":5000},"contents":[]}'],
];
const ASKED = /"5_000"|5000|5e3/g;

t.test(
  "with a budget or a token limit a request asks for no more than is reserved, otherwise it is sent unchanged",
  async (t) => {
    const got: string[] = [];
    const upstream = await httpUpstream(({ body }, reply) => {
      got.push(body.toString());
      reply.setHeader("content-type", "application/json").end("{}");
    });
    t.teardown(() => upstream.close());
    const { url } = await startGateway(
      t,
      `providers: { p: { url: "${upstream.origin.origin}/v1", speaks: ${ALL} } }
models: { m: { targets: [p:m], price: { input: 1, output: 1000 }, output: 100 } }
keys:
  budget: { key: budget-key-0123456789ab, budget: $1000 }
  tokens: { key: tokens-key-0123456789ab, tpm: 1M }
  soft: { key: soft-key-0123456789ab, budget: { amount: $1000, soft: true } }
  rate: { key: rate-key-0123456789ab, rpm: 1M }
`,
    );
    const ask = (key: string, path: string, body: string, headers: Record<string, string> = {}) =>
      fetch(url + path, {
        method: "POST",
        headers: { "content-type": "application/json", authorization: `Bearer ${key}-key-0123456789ab`, ...headers },
        body,
      });
    for (const [path, body] of LONGER)
      for (const key of ["budget", "tokens", "soft", "rate"]) {
        const answer = await ask(key, path, body);
        await answer.text();
        const counted = key === "budget" || key === "tokens";
        t.equal(got.pop(), counted ? body.replaceAll(ASKED, "100") : body, `${key}: ${body}`);
        t.equal(/at most 100 tokens/.test(answer.headers.get("gateway-notice") ?? ""), counted, `${key}: the notice`);
        const strict = await ask(key, path, body, { "gateway-strict": "1" });
        await strict.text();
        t.equal(strict.status, counted ? 400 : 200, `${key}: where nothing may be changed`);
        got.length = 0;
      }
  },
);

t.test("for an answer of unlimited length the longest known maximum counts", async (t) => {
  const upstream = await httpUpstream((_, reply) => {
    reply.setHeader("content-type", "application/json").end("{}");
  });
  t.teardown(() => upstream.close());
  const { url } = await startGateway(
    t,
    `providers: { openai: { url: "${upstream.origin.origin}/v1", vendor: openai, speaks: [openai-chat] } }
models: { gpt-4o: { targets: [openai:gpt-4o], output: 100 } }
limits: { default: { budget: $0.02 } }
`,
  );
  const ask = (more: object) =>
    fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      headers: asking(),
      body: JSON.stringify({ model: "gpt-4o", messages: [], ...more }),
    });
  t.equal((await ask({ max_tokens: 100 })).status, 200);
  t.equal((await ask({})).status, 429, "16,384 tokens that the vendor may give");
});

t.test("an image that a tool of the vendor's may draw is reserved where it has a price", async (t) => {
  const upstream = await httpUpstream((_, reply) => {
    reply.setHeader("content-type", "application/json").end("{}");
  });
  t.teardown(() => upstream.close());
  const { url } = await startGateway(
    t,
    `providers: { p: { url: "${upstream.origin.origin}/v1", speaks: [openai-responses] } }
models:
  m: { targets: [p:m], output: 100, price: { input: 1, output: 1, image_generation: { one: { input: 5, output_image: 30 }, "*": { output: 40 } } } }
limits: { default: { budget: $0.16 } }
`,
  );
  const ask = async (tools: string) => {
    const body = `{"model":"m","input":"a","max_output_tokens":10${tools}}`;
    const answer = await fetch(`${url}/v1/responses`, { method: "POST", headers: asking(), body });
    return { status: answer.status, text: await answer.text() };
  };
  t.match(await ask(""), { status: 200 });
  t.match(await ask(',"tools":[{"type":"function","name":"f","parameters":{}}]'), { status: 200 });
  for (const type of ["image_generation", "image\\u005fgeneration"])
    t.match(await ask(`,"tools":[{"type":"${type}"}]`), { status: 429, text: /16/ }, "4,160 tokens at $40 a million");
});

t.test("an image that a tool would draw without a price is refused where a budget must be enforced", async (t) => {
  const upstream = await httpUpstream((_, reply) => {
    reply.setHeader("content-type", "application/json").end("{}");
  });
  t.teardown(() => upstream.close());
  const { url } = await startGateway(
    t,
    `providers: { p: { url: "${upstream.origin.origin}/v1", speaks: [openai-responses] } }
models:
  text: { targets: [p:m], output: 100, price: { input: 1, output: 1 } }
  some: { targets: [p:m], output: 100, price: { input: 1, output: 1, image_generation: { one: { output: 1 } } } }
  all: { targets: [p:m], output: 100, price: { input: 1, output: 1, image_generation: { "*": { output: 1 } } } }
keys: { hard: { key: hard-key-0123456789abcdef, budget: $1 }, soft: { key: soft-key-0123456789abcdef, budget: { amount: $1, soft: true } } }
`,
  );
  const ask = async (key: string, model: string, tool: object) => {
    const body = JSON.stringify({ model, input: "a", max_output_tokens: 10, tools: [null, tool] });
    const headers = asking({ authorization: `Bearer ${key}-key-0123456789abcdef` });
    const answer = await fetch(`${url}/v1/responses`, { method: "POST", headers, body });
    return { status: answer.status, text: await answer.text() };
  };
  const drawing = { type: "image_generation" };
  const refused = { status: 403, text: /budget, and the price of images that a tool draws is unknown/ };
  t.match(await ask("hard", "text", drawing), refused);
  t.match(await ask("hard", "some", { ...drawing, model: "two" }), refused);
  for (const [key, model, tool] of [
    ["soft", "text", drawing],
    ["hard", "some", drawing],
    ["hard", "some", { ...drawing, model: "one" }],
    ["hard", "all", { ...drawing, model: "two" }],
    ["hard", "text", { type: "function", name: "image_generation", description: "caf\u00e9" }],
  ] as const)
    t.match(await ask(key, model, tool), { status: 200 }, `${key} ${model} ${JSON.stringify(tool)}`);
});
