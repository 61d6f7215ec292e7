import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import t, { type Test } from "tap";
import { worstCase } from "../../../plugins/limits/worst-case.ts";
import openaiImages from "../../../plugins/protocols/openai-images/index.ts";
import openaiResponses from "../../../plugins/protocols/openai-responses/index.ts";
import { Body } from "../../../src/core/body.ts";
import { scan } from "../../../src/wire/json.ts";
import { asking, startGateway } from "../../support/gateway.ts";
import { sample } from "../../support/sample.ts";
import { httpUpstream } from "../../support/upstream.ts";

const ALL = "[openai-chat, openai-completions, openai-responses, anthropic-messages, gemini]";

/** Starts an upstream, and a gateway whose provider `p` it is; both end with the test. */
async function startWithProvider(t: Test, provider: string, yaml: string) {
  const upstream = await httpUpstream();
  t.teardown(() => upstream.close());
  const { url } = await startGateway(
    t,
    `providers: { p: { url: "${upstream.origin.origin}/v1", ${provider} } }\n${yaml}`,
  );
  return { url, upstream };
}

/** Base64 of so many bytes that begin like a PNG file. */
const png = (bytes: number) =>
  Buffer.concat([Buffer.from("\x89PNG\r\n\x1a\n", "latin1"), randomBytes(bytes)]).toString("base64");

/** Requests that hold base64, as media and as text, by path. */
const HOLDING: Record<string, (base64: string) => { media: unknown[]; text: unknown[] }> = {
  "/v1/chat/completions": (data) => {
    const url = `data:image/png;base64,${data}`;
    const chat = (...messages: object[]) => ({ model: "m", max_tokens: 1, messages });
    const user = (...content: object[]) => chat({ role: "user", content });
    const call = (args: unknown) => ({
      role: "assistant",
      tool_calls: [{ id: "c", type: "function", function: { name: "f", arguments: args } }],
    });
    const result = (content: unknown) => ({ role: "tool", tool_call_id: "c", content });
    const ask = { role: "user", content: "Ask." };
    return {
      media: [user({ type: "image_url", image_url: { url } })],
      text: [
        user({ type: "text", text: url }),
        user({ type: "text", text: "a", image_url: { url } }),
        user({ type: "new", image_url: { url } }),
        chat({ role: "system", content: url }),
        chat(ask, call(JSON.stringify({ url })), result("Done.")),
        chat(ask, call(JSON.stringify({ image_url: { url } })), result("Done.")),
        chat(ask, call("{}"), result(url)),
        chat(ask, call("{}"), result(JSON.stringify({ data, type: "image/png" }))),
        { ...user({ type: "text", text: "a" }), metadata: { url } },
        {
          ...user({ type: "text", text: "a" }),
          tools: [{ type: "function", function: { name: "f", parameters: { type: "object", default: { url } } } }],
        },
        {
          ...user({ type: "text", text: "a" }),
          response_format: { type: "json_schema", json_schema: { name: "s", schema: { default: { image_url: url } } } },
        },
      ],
    };
  },
  "/v1/responses": (data) => {
    const url = `data:image/png;base64,${data}`;
    const input = (...items: object[]) => ({ model: "m", max_output_tokens: 1, input: items });
    const user = (...content: object[]) => input({ role: "user", content });
    const call = (args: string) => ({ type: "function_call", call_id: "c", name: "f", arguments: args });
    const output = (output: unknown) => ({ type: "function_call_output", call_id: "c", output });
    return {
      media: [
        user({ type: "input_image", image_url: url }),
        input(call("{}"), output([{ type: "input_image", image_url: url }])),
      ],
      text: [
        user({ type: "input_text", text: url }),
        user({ type: "input_text", text: "a", image_url: url }),
        input(call(JSON.stringify({ url })), output("Done.")),
        input(call("{}"), output(url)),
        input(call("{}"), output(JSON.stringify({ image_url: url }))),
        { ...user({ type: "input_text", text: "a" }), instructions: url },
        { ...user({ type: "input_text", text: "a" }), metadata: { url } },
      ],
    };
  },
  "/v1/messages": (data) => {
    const url = `data:image/png;base64,${data}`;
    const source = { type: "base64", media_type: "image/png", data };
    const messages = (...turns: object[]) => ({ model: "m", max_tokens: 1, messages: turns });
    const user = (...content: object[]) => ({ role: "user", content });
    const call = (input: object) => ({ role: "assistant", content: [{ type: "tool_use", id: "c", name: "f", input }] });
    const result = (content: unknown) => user({ type: "tool_result", tool_use_id: "c", content });
    const ask = user({ type: "text", text: "Ask." });
    return {
      media: [messages(user({ type: "image", source })), messages(ask, call({}), result([{ type: "image", source }]))],
      text: [
        messages(ask, call({ url }), result("Done.")),
        messages(ask, call({ image_url: { url } }), result("Done.")),
        messages(ask, call({ type: "image", source }), result("Done.")),
        messages(ask, call({ file_data: url }), result("Done.")),
        messages(ask, call({}), result(url)),
        messages(ask, call({}), result([{ type: "text", text: "a", source }])),
        messages(user({ type: "document", source: { type: "text", media_type: "text/plain", data } })),
        { ...messages(ask), system: url },
        { ...messages(ask), tools: [{ name: "f", input_schema: { type: "object", default: source } }] },
      ],
    };
  },
  "/v1beta/models/m:generateContent": (data) => {
    const url = `data:image/png;base64,${data}`;
    const inlineData = { mimeType: "image/png", data };
    const contents = (...turns: object[]) => ({ contents: turns, generationConfig: { maxOutputTokens: 1 } });
    const user = (...parts: object[]) => ({ role: "user", parts });
    const call = (args: object) => ({ role: "model", parts: [{ functionCall: { name: "f", args } }] });
    const result = (response: object, more = {}) => user({ functionResponse: { name: "f", response, ...more } });
    const ask = user({ text: "Ask." });
    return {
      media: [contents(user({ inlineData })), contents(ask, call({}), result({}, { parts: [{ inlineData }] }))],
      text: [
        contents(user({ text: url })),
        contents(ask, call({ url }), result({})),
        contents(ask, call({ inlineData }), result({})),
        contents(ask, call({}), result({ url })),
        contents(ask, call({}), result({ inlineData })),
        { ...contents(ask), systemInstruction: { parts: [{ text: url }] } },
        {
          ...contents(ask),
          tools: [{ functionDeclarations: [{ name: "f", parametersJsonSchema: { default: { url } } }] }],
        },
      ],
    };
  },
};

t.test("base64 counts as media only where the model reads it as media, and elsewhere as a text", async (t) => {
  const { url } = await startGateway(
    t,
    `providers: { p: { url: "http://127.0.0.1:9/v1", speaks: ${ALL} } }
models: { m: { targets: [p:m], price: { input: 1, output: 1 }, output: 100 } }
`,
  );
  const reserved = async (path: string, body: string) => {
    const headers = asking({ "gateway-explain": "dry-run" });
    const answer = await fetch(url + path, { method: "POST", headers, body });
    const { maximum } = (await answer.json()) as { maximum: { tokens: number } | null };
    return maximum?.tokens ?? 0;
  };
  const forms = Object.entries(HOLDING).flatMap(([path, holding]) =>
    [9000, 200_000].flatMap((bytes) => {
      const { media, text } = holding(png(bytes));
      const whole = media.map((request) => JSON.stringify(request));
      return [
        ...[...whole, ...whole.map((body) => body.replaceAll("/", "\\/"))].map((body) => ({
          path,
          bytes,
          body,
          media: true,
        })),
        ...text.map((request) => ({ path, bytes, body: JSON.stringify(request), media: false })),
      ];
    }),
  );
  for (const { path, bytes, body, media } of sample(forms, 5)) {
    const tokens = await reserved(path, body);
    if (media) t.ok(tokens > 1600 && tokens < 1800, `${path}: media of ${bytes}, ${tokens}: ${shape(body)}`);
    else t.ok(tokens > (bytes * 4) / 9, `${path}: a text of ${bytes}, ${tokens}: ${shape(body)}`);
  }
});

t.test("token ids are reserved by their number, however long they are written, and texts by their bytes", async (t) => {
  const { url } = await startGateway(
    t,
    `providers: { p: { url: "http://127.0.0.1:9/v1", speaks: [openai-completions, openai-embeddings] } }
models: { m: { targets: [p:m], price: { input: 1, output: 1 }, output: 100 } }
`,
  );
  const reserved = async (path: string, body: string): Promise<number> => {
    const headers = asking({ "gateway-explain": "dry-run" });
    const answer = await fetch(url + path, { method: "POST", headers, body });
    return ((await answer.json()) as { maximum: { tokens: number } }).maximum.tokens;
  };
  const completion = (prompt: string) => reserved("/v1/completions", `{"model":"m","max_tokens":1,"prompt":${prompt}}`);
  const embedding = (input: string) => reserved("/v1/embeddings", `{"model":"m","input":${input}}`);
  for (const id of ["1", "123456", "7 "]) {
    const ids = `[${Array(3000).fill(id).join()}]`;
    for (const list of [ids, ` [ ${ids.slice(1)}`]) {
      const tokens = [await completion(list), await embedding(list), await embedding(`[[],${list}]`)];
      t.ok(
        tokens.every((each) => each >= 3000 && each < 3050),
        `${id}: ${tokens}`,
      );
    }
  }
  const texts = `["${"a".repeat(3000)}"]`;
  t.ok((await completion(texts)) > 1000);
  t.ok((await completion(`[1,${texts.slice(1)}`)) > 1000, "also behind a number");
});

t.test("whether a document fits into the tokens of a minute is judged by its usual cost", async (t) => {
  const { url } = await startWithProvider(
    t,
    `speaks: ${ALL}`,
    `models: { m: { targets: [p:m], price: { input: 1, output: 1 }, output: 100 } }
limits: { default: { tpm: 100k } }
`,
  );
  const data = Buffer.concat([Buffer.from("%PDF-1.7\n"), randomBytes(600_000)]).toString("base64");
  const source = { type: "base64", media_type: "application/pdf", data };
  const messages = [{ role: "user", content: [{ type: "document", source }] }];
  const body = JSON.stringify({ model: "m", max_tokens: 1, messages });
  const status = async () => (await fetch(`${url}/v1/messages`, { method: "POST", headers: asking(), body })).status;
  t.equal(await status(), 200);
});

t.test("media are reserved at their own rates where these are higher than the text's", async (t) => {
  const { url } = await startWithProvider(
    t,
    `speaks: ${ALL}`,
    `models:
  base: { targets: [p:m], price: { input: 1, output: 0 }, output: 1 }
  dear: { targets: [p:m], price: { input: 1, output: 0, input_audio: 16, input_image: 4, cache_write: 2 }, output: 1 }
limits: { default: { budget: $0.000001 } }
`,
  );
  /** Dollars for a million times this request. */
  const costOf = async (model: string, content: object) => {
    const body = JSON.stringify({ model, max_tokens: 1, messages: [{ role: "user", content: [content] }] });
    const answer = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers: asking(), body });
    return Number(/may cost up to \$([\d.]+\d)/.exec(await answer.text())?.[1]) * 1e6;
  };
  const audio = { type: "input_audio", input_audio: { format: "mp3", data: randomBytes(20_000).toString("base64") } };
  const image = { type: "image_url", image_url: { url: `data:image/png;base64,${png(9000)}` } };
  const text = { type: "text", text: "word ".repeat(2000) };
  for (const [name, content, tokens, rate] of [
    ["audio", audio, 1000, 16],
    ["an image", image, 1600, 4],
  ] as const) {
    const [base, dear] = [await costOf("base", content), await costOf("dear", content)];
    t.ok(base > tokens && base < tokens + 200, `${name} as text: ${base}`);
    // The rest of the request may be written to a cache.
    const rest = dear - tokens * rate;
    t.ok(rest > 0 && rest < 2 * 200, `${name} at its rate: ${dear}`);
  }
  t.equal(Math.round(await costOf("dear", text)), Math.round(2 * (await costOf("base", text))), "text at the text's");
});

t.test("an answer is reserved at the rate of its dearest kind, reasoning too", async (t) => {
  const rates = [
    ["output: 2", 2],
    ["output: 2, reasoning: 1", 2],
    ["output: 2, reasoning: 8", 8],
    ["output: 2, reasoning: 8, output_audio: 9", 9],
    ["output: 2, reasoning: 8, output_audio: 9, output_image: 10", 10],
  ] as const;
  const models = rates.map(([rate], i) => `  m${i}: { targets: [p:m], price: { input: 0, ${rate} }, output: 1000 }\n`);
  const providers = `providers: { p: { url: "http://127.0.0.1:9/v1", speaks: ${ALL} } }\n`;
  const { url } = await startGateway(
    t,
    `${providers}models:\n${models.join("")}limits: { all: { budget: $0.000001 } }\n`,
  );
  for (const [i, [rate, dollars]] of rates.entries()) {
    const body = JSON.stringify({ model: `m${i}`, max_tokens: 1000, messages: [{ role: "user", content: "Think." }] });
    const answer = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers: asking(), body });
    t.equal(Number(/may cost up to \$([\d.]+\d)/.exec(await answer.text())?.[1]), dollars / 1000, rate);
  }
});

const shape = (body: string): string => body.replace(/[\w+/=\\]{99,}/g, "…");

/** Bodies that ask for 5,000 tokens in all ways, as they are spelled here; the model gives 100. */
const LONGER: readonly (readonly [path: string, body: string])[] = [
  ["/v1/chat/completions", '{"model":"m", "max_tokens":5000,"messages":[],"max_completion_tokens": "5_000" }'],
  ["/v1/completions", '{"max_tokens" : 5000, "model":"m","prompt":"a"}'],
  ["/v1/responses", '{"model":"m","input":"a","max_output_tokens":5000}'],
  ["/v1/messages", '{"model":"m","messages":[],"max_tokens":5e3}'],
  ["/v1beta/models/m:generateContent", '{"contents":[],"generationConfig":{"\\ud800":[1], "maxOutputTokens":5000}}'],
  ["/v1beta/models/m:generateContent", '{"generation_config":{"max_output_tokens":5000},"contents":[]}'],
];
const ASKED = /"5_000"|5000|5e3/g;

t.test(
  "under a budget or a limit of tokens a request asks for no more than is reserved, else it leaves as it came",
  async (t) => {
    const { url, upstream } = await startWithProvider(
      t,
      `speaks: ${ALL}`,
      `models: { m: { targets: [p:m], price: { input: 1, output: 1000 }, output: 100 } }
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
        t.equal(
          upstream.seen.pop()?.body.toString(),
          counted ? body.replaceAll(ASKED, "100") : body,
          `${key}: ${body}`,
        );
        t.equal(/at most 100 tokens/.test(answer.headers.get("gateway-notice") ?? ""), counted, `${key}: told`);
        const strict = await ask(key, path, body, { "gateway-strict": "1" });
        await strict.text();
        t.equal(strict.status, counted ? 400 : 200, `${key}: where nothing may be changed`);
        upstream.seen.length = 0;
      }
  },
);

t.test("a request to several targets asks for no more than the longest answer of one of them", async (t) => {
  const { url, upstream } = await startWithProvider(
    t,
    "vendor: openai, speaks: [openai-chat]",
    `models:
  known: { targets: [{ to: p:gpt-4.1, weight: 1000 }, p:gpt-4o] }
  partly: { targets: [p:gpt-4o, p:nobody-knows-it] }
limits: { default: { tpm: 10M } }
`,
  );
  for (const [model, sent] of [
    ["known", 32_768],
    ["partly", 1_000_000],
  ] as const) {
    const body = `{"model":"${model}","messages":[],"max_tokens":1000000}`;
    const answer = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers: asking(), body });
    t.equal(answer.status, 200);
    t.match(upstream.seen.pop()?.body.toString(), new RegExp(`"max_tokens":${sent}}`), model);
  }
});

t.test("an object that several limits may be in is parsed once for a reservation, once to reduce them", async (t) => {
  const { url } = await startWithProvider(
    t,
    "speaks: [gemini]",
    `models: { m: { targets: [p:m], price: { input: 1, output: 1 }, output: 100 } }
limits: { default: { budget: $9 } }
`,
  );
  const { parse } = JSON;
  let parses = 0;
  t.intercept(JSON, "parse", {
    value: (text: string, ...more: []) => {
      if (/^\{"mark"/.test(text)) parses++;
      return parse(text, ...more) as unknown;
    },
  });
  const body = '{"contents":[],"generationConfig":{"mark":1,"maxOutputTokens":5000}}';
  const path = "/v1beta/models/m:generateContent";
  t.equal((await fetch(url + path, { method: "POST", headers: asking(), body })).status, 200);
  t.equal(parses, 2);
});

t.test("of an answer whose length the request leaves open the longest counts that anybody knows", async (t) => {
  const { url } = await startWithProvider(
    t,
    "vendor: openai, speaks: [openai-chat]",
    `models: { gpt-4o: { targets: [p:gpt-4o], output: 100 } }
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

t.test("an edited picture is reserved at the price of an edit", async (t) => {
  const { url } = await startWithProvider(
    t,
    "speaks: [openai-images]",
    `models:
  dear: { targets: [p:m], price: { image: 0.01, image_edit: 0.5 } }
  sized: { targets: [p:m], price: { image: 0.01, image_edit: { "": 0.01, "hd 1024x1024": 0.5 } } }
  cheap: { targets: [p:m], price: { image: 0.01, image_edit: 0.3 } }
limits: { default: { budget: $0.4 } }
`,
  );
  const edit = async (model: string) => {
    const body = new FormData();
    body.append("model", model);
    body.append("prompt", "a");
    body.append("image", new Blob([Buffer.from(png(9), "base64")]), "a.png");
    const { "content-type": _, ...headers } = asking();
    const answer = await fetch(`${url}/v1/images/edits`, { method: "POST", headers, body });
    await answer.text();
    return answer.status;
  };
  t.same([await edit("dear"), await edit("sized"), await edit("cheap")], [429, 429, 200]);
});

t.test("a protocol's figure that is none is not reserved", async (t) => {
  const { images } = openaiImages;
  for (const [figure, tokens] of [
    [Number.NaN, 4096],
    [-5, 4096],
    [Number.POSITIVE_INFINITY, 1e12],
    [7, 7],
  ] as const)
    for (const [protocol, body] of [
      [{ ...openaiImages, images: { ...images, tokensOf: () => figure } }, { prompt: "a" }],
      [
        { ...openaiResponses, output: { ...openaiResponses.output, imageTool: ["draw", () => figure] } },
        { input: "a", max_output_tokens: 0, tools: [{ type: "draw" }] },
      ],
    ] as const) {
      const price = { input: 0, output: 1, image_generation: { "*": { output: 1 } } };
      const target = {
        ...{ model: "m", provider: { speaks: [protocol.name] }, maxOutputTokens: protocol.images ? undefined : 0 },
        prices: { versionAt: () => ({ price }) },
      };
      const bytes = Buffer.from(JSON.stringify(body));
      const scanned = new Body([bytes], scan(bytes));
      const exchange = { operation: { generates: true }, body: scanned, protocol, targets: [target], time: 0 };
      const worst = await worstCase(exchange as never, {} as never);
      t.equal(worst.maximum.cost, tokens * 1000, `${protocol.name} ${figure}`);
    }
});

t.test("each picture of a form is reserved for, all that a form may have where they have not arrived", async (t) => {
  const { url } = await startWithProvider(
    t,
    "speaks: [openai-images]",
    `models:
  m: { targets: [p:m], price: { input: 0, input_image: 10, output: 0 } }
limits: { default: { budget: $0.2 } }
`,
  );
  const edit = async (...pictures: Buffer[]) => {
    const body = new FormData();
    for (const [name, value] of Object.entries({ model: "m", prompt: "a", n: "1" })) body.append(name, value);
    for (const picture of pictures) body.append("image[]", new Blob([new Uint8Array(picture)]), "a.png");
    const { "content-type": _, ...headers } = asking();
    const answer = await fetch(`${url}/v1/images/edits`, { method: "POST", headers, body });
    await answer.text();
    return answer.status;
  };
  const small = Buffer.from(png(9), "base64");
  t.equal(await edit(small, small, small), 429);
  t.equal(await edit(Buffer.alloc(300_000)), 429, "not read to its end");
  t.equal(await edit(small, small), 200);
});

t.test("pictures are reserved by the size and quality that the request asks for", async (t) => {
  const keys = ["a", "b", "c", "d", "e", "f", "g"].map((k) => `${k}: { key: ${k}-key-0123456789abcdef, budget: $0.5 }`);
  const { url } = await startWithProvider(
    t,
    "speaks: [openai-images, openai-responses]",
    `models:
  m: { targets: [p:gpt-image-1], price: { input: 0, output: 0, output_image: 100 } }
  tool: { targets: [p:m], output: 100, price: { input: 0, output: 0, image_generation: { "*": { output: 100 } } } }
keys: { ${keys.join(", ")} }
`,
  );
  const post = async (key: string, path: string, body: FormData | object) => {
    const { "content-type": type, ...headers } = asking({ authorization: `Bearer ${key}-key-0123456789abcdef` });
    const answer = await (body instanceof FormData
      ? fetch(url + path, { method: "POST", headers, body })
      : fetch(url + path, {
          method: "POST",
          headers: { ...headers, "content-type": String(type) },
          body: JSON.stringify(body),
        }));
    await answer.text();
    return answer.status;
  };
  const picture = (key: string, more: object) =>
    post(key, "/v1/images/generations", { model: "m", prompt: "a", ...more });
  const high = { quality: "high" };
  t.equal(await picture("a", { ...high, size: "1024x1536" }), 429, "6,240 tokens");
  t.equal(await picture("a", { size: "1536x1024" }), 429);
  t.equal(await picture("a", { ...high, size: "auto" }), 429);
  t.equal(await picture("a", { quality: "medium", size: "1024x1536", n: 4 }), 429);
  t.equal(await picture("a", { quality: "medium", size: "1024x1536", n: 3 }), 200, "4,752 tokens");
  const textless = { toString: 1 };
  t.equal(await picture("a", { ...high, size: textless, partial_images: textless }), 429, "the dearest");
  t.equal(await picture("b", { ...high, size: "1024x1024", partial_images: 3, n: 1 }), 200, "4,460 tokens");
  const three = { quality: "medium", size: "1024x1536", n: 3 };
  t.equal(await picture("g", { ...three, partial_images: 1 }), 429, "5,052 tokens");
  const form = (more: Record<string, string>) => {
    const body = new FormData();
    for (const [name, value] of Object.entries({ model: "m", prompt: "a", ...more })) body.append(name, value);
    body.append("image", new Blob([Buffer.from(png(9), "base64")]), "a.png");
    return body;
  };
  t.equal(await post("c", "/v1/images/edits", form({ ...high, size: "1024x1536" })), 429);
  t.equal(await post("c", "/v1/images/edits", form({ ...high, size: "1024x1024" })), 200);
  const draw = (key: string, more: object) =>
    post(key, "/v1/responses", { model: "tool", input: "a", tools: [{ type: "image_generation", ...more }] });
  t.equal(await draw("d", { model: "gpt-image-1", ...high }), 429);
  t.equal(await draw("d", { model: "gpt-image-2", ...high, size: "3840x2160" }), 429);
  t.equal(await draw("d", { model: "gpt-image-1", ...high, size: "1024x1024" }), 200);
  t.equal(await draw("e", { quality: "low" }), 200);
  const wide = { model: "gpt-image-2", ...high, size: "2000x1024" };
  t.equal(await draw("g", { ...wide, partial_images: 3 }), 429, "5,061 tokens");
  t.equal(await draw("g", { ...wide, partial_images: 2 }), 200, "4,961 tokens");
  for (const size of ["00x00", "10x99999"])
    t.equal(await draw("f", { model: "gpt-image-2", ...high, size }), size === "00x00" ? 429 : 200, size);
  t.equal(await draw("f", { model: "gpt-image-1", ...high }), 429, "no size ends the budget");
});

t.test("a picture that a tool of the vendor's may draw is reserved where it costs something", async (t) => {
  const { url } = await startWithProvider(
    t,
    "speaks: [openai-responses]",
    `models:
  m: { targets: [p:m], output: 100, price: { input: 1, output: 1, image_generation: { one: { input: 5, output_image: 30 }, "*": { output: 40 } } } }
limits: { default: { budget: $0.28 } }
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
    t.match(await ask(`,"tools":[{"type":"${type}"}]`), { status: 429, text: /28/ }, "7,024 tokens at $40 a million");
  /** The status for a body that arrives in these pieces. */
  const askInPieces = async (...pieces: string[]) => {
    const headers = { ...asking(), "transfer-encoding": "chunked" };
    const asked = request(`${url}/v1/responses`, { method: "POST", headers });
    const answered = once(asked, "response") as Promise<[IncomingMessage]>;
    asked.flushHeaders();
    for (const piece of pieces) {
      asked.write(piece);
      await sleep(10);
    }
    asked.end();
    const [answer] = await answered;
    answer.resume();
    return answer.statusCode;
  };
  const [head, end] = ['{"model":"m","input":"a","max_output_tokens":10,"tools":[{"type":"', '"}]}'];
  for (const name of [["image_gene", "ration"], ["image_g", "ene", "ration"], [..."image_generation"]])
    t.equal(await askInPieces(head + name[0], ...name.slice(1), end), 429, name.join(" "));
  t.equal(await askInPieces(`${head}web_`, `search${end}`), 200);
});

t.test("a picture that a tool would draw without a price is refused where a budget has to hold", async (t) => {
  const { url } = await startWithProvider(
    t,
    "speaks: [openai-responses]",
    `models:
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

t.test("web searches that a request allows the vendor are reserved where they cost something", async (t) => {
  const { url } = await startWithProvider(
    t,
    `speaks: ${ALL}`,
    `models:
  m: { targets: [p:m], output: 100, price: { input: 1, output: 1, web_search: 0.01 } }
  once: { targets: [p:m], output: 100, price: { input: 1, output: 1, web_search: 0.06 } }
  always: { targets: [p:m-search-1], output: 100, price: { input: 1, output: 1, web_search: 0.06 } }
  free: { targets: [p:m], output: 100, price: { input: 1, output: 1 } }
limits: { default: { budget: $0.05 } }
`,
  );
  const ask = async (path: string, body: object, model: string) => {
    const at = path.replace("MODEL", model);
    const answer = await fetch(url + at, {
      method: "POST",
      headers: asking(),
      body: JSON.stringify({ model, ...body }).replace("_ESCAPED", "\\u005fsearch"),
    });
    await answer.text();
    return answer.status;
  };
  const messages = [{ role: "user", content: "a" }];
  const gemini = { contents: [{ role: "user", parts: [{ text: "a" }] }], generationConfig: { maxOutputTokens: 10 } };
  const named = { name: "web_search", description: "The client's own." };
  for (const [path, body, dear, cheap] of [
    [
      "/v1/messages",
      { messages, max_tokens: 10 },
      [
        { tools: [{ type: "web_search_20250305", name: "web_search" }] },
        { tools: [{ type: "web_ESCAPED_20250305", name: "web_search" }] },
        { tools: [{ type: "web_search_20260209", name: "web_search", max_uses: 6 }] },
        { tools: [{ type: "web_search_20250305", name: "web_search", max_uses: "1" }] },
      ],
      [
        { tools: [{ type: "web_search_20250305", name: "web_search", max_uses: 3 }] },
        { tools: [null, { ...named, input_schema: { type: "object" } }] },
        { tools: [{ type: "web_fetch_20250910", name: "web_fetch" }] },
      ],
    ],
    [
      "/v1/responses",
      { input: "a", max_output_tokens: 10 },
      [
        { tools: [{ type: "web_search" }] },
        { tools: [{ type: "web_search_preview" }] },
        { tools: [{ type: "openrouter:web_search" }] },
      ],
      [{ tools: [{ type: "function", ...named, parameters: {} }] }],
    ],
    [
      "/v1/chat/completions",
      { messages, max_tokens: 10 },
      [{ tools: [{ type: "web_search" }] }, { tools: [{ type: "openrouter:web_search" }] }],
      [{ web_search_options: {} }, { tools: [{ type: "function", function: named }] }],
    ],
    [
      "/v1beta/models/MODEL:generateContent",
      gemini,
      [
        { tools: [{ googleSearch: {} }] },
        { tools: { google_search: {} } },
        { tools: [{ googleSearchRetrieval: {} }] },
        { tools: [{ enterpriseWebSearch: {} }] },
      ],
      [{ tools: [{ functionDeclarations: [{ ...named, name: "googleSearch" }] }] }],
    ],
  ] as const) {
    for (const tools of dear) {
      t.equal(await ask(path, { ...body, ...tools }, "m"), 429, `${path} ${JSON.stringify(tools)}`);
      t.equal(await ask(path, { ...body, ...tools }, "free"), 200, `${path} ${JSON.stringify(tools)}, free`);
    }
    for (const tools of cheap) t.equal(await ask(path, { ...body, ...tools }, "m"), 200, JSON.stringify(tools));
  }
  const chat = (model: string, members: object) =>
    ask("/v1/chat/completions", { messages, max_tokens: 10, ...members }, model);
  t.same(
    [await chat("once", {}), await chat("once", { web_search_options: {} }), await chat("always", {})],
    [200, 429, 429],
  );
});

t.test(
  "a translated request may search as often as one without a limit, which other protocols do not have",
  async (t) => {
    const messages = [{ role: "user", content: "a" }];
    const search = { type: "web_search_20250305", name: "web_search", max_uses: 3 };
    for (const [speaks, model, path, members] of [
      ["anthropic-messages", "claude-sonnet-4-5", "/v1/chat/completions", { web_search_options: {} }],
      ["openai-responses", "gpt-5", "/v1/messages", { tools: [search] }],
    ] as const) {
      const { url, upstream } = await startWithProvider(
        t,
        `speaks: [${speaks}]`,
        `models:
  dear: { targets: [p:${model}], output: 100, price: { input: 1, output: 1, web_search: 0.01 } }
  cheap: { targets: [p:${model}], output: 100, price: { input: 1, output: 1, web_search: 0.001 } }
limits: { default: { budget: $0.05 } }
`,
      );
      const ask = async (name: string) => {
        const body = JSON.stringify({ model: name, messages, max_tokens: 10, ...members });
        const answer = await fetch(url + path, { method: "POST", headers: asking(), body });
        await answer.text();
        return answer.status;
      };
      t.equal(await ask("dear"), 429, path);
      t.equal(upstream.seen.length, 0);
      t.not(await ask("cheap"), 429);
      t.match(upstream.seen[0]?.body.toString(), /"type":"web_search/);
    }
  },
);
