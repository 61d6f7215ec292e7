import type { ServerResponse } from "node:http";
import t, { type Test } from "tap";
import { startGateway } from "../support/gateway.ts";
import { httpUpstream, type SeenRequest } from "../support/upstream.ts";

const KEYS = { mine: "the-key-that-makes-it-01", theirs: "the-key-of-others-012345" } as const;
const OWN = "https://generativelanguage.googleapis.com/v1beta/files/abcdef123456";
const PATHS = { responses: "/v1/responses", chat: "/v1/chat/completions", messages: "/v1/messages" } as const;
type Client = keyof typeof PATHS;

/** Requests that bring along what lies at an address, as clients of each protocol do, and the field of it. */
const NAMING: readonly (readonly [Client, (url: string) => object, string])[] = [
  [
    "responses",
    (url) => ({ input: [{ role: "user", content: [{ type: "input_file", file_url: url, filename: "x.pdf" }] }] }),
    "input.0.content.0.file_url",
  ],
  [
    "responses",
    (url) => ({ input: [{ role: "user", content: [{ type: "input_image", image_url: `${url}.png` }] }] }),
    "input.0.content.0.image_url",
  ],
  [
    "responses",
    (url) => ({
      input: [
        { role: "user", content: "Look" },
        { type: "function_call", call_id: "c", name: "look", arguments: "{}" },
        { type: "function_call_output", call_id: "c", output: [{ type: "input_image", image_url: `${url}.png` }] },
      ],
    }),
    "input.2.output.0.image_url",
  ],
  [
    "messages",
    (url) => ({
      max_tokens: 9,
      messages: [
        { role: "user", content: [{ type: "document", source: { type: "url", url, media_type: "application/pdf" } }] },
      ],
    }),
    "messages.0.content.0.source.url",
  ],
  [
    "messages",
    (url) => ({
      max_tokens: 9,
      messages: [
        { role: "user", content: "Look" },
        { role: "assistant", content: [{ type: "tool_use", id: "c", name: "look", input: {} }] },
        {
          role: "user",
          content: [
            {
              type: "tool_result",
              tool_use_id: "c",
              content: [{ type: "image", source: { type: "url", url: `${url}.png` } }],
            },
          ],
        },
      ],
    }),
    "messages.2.content.0.content.0.source.url",
  ],
  [
    "chat",
    (url) => ({
      messages: [{ role: "user", content: [{ type: "file", file: { file_data: url, filename: "x.pdf" } }] }],
    }),
    "messages.0.content.0.file.file_data",
  ],
  [
    "chat",
    (url) => ({
      messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: `${url}.png` } }] }],
    }),
    "messages.0.content.0.image_url.url",
  ],
  [
    "chat",
    (url) => ({
      messages: [{ role: "user", content: [{ type: "video_url", video_url: { url: `${url}.mp4` } }] }],
    }),
    "messages.0.content.0.video_url.url",
  ],
  [
    "chat",
    (url) => ({
      messages: [
        { role: "user", content: "Draw" },
        {
          role: "assistant",
          content: "Here",
          images: [{ type: "image_url", image_url: { url: `${url}.png` } }],
        },
        { role: "user", content: "And?" },
      ],
    }),
    "messages.1.images.0.image_url.url",
  ],
];

const ANSWER = {
  candidates: [{ content: { role: "model", parts: [{ text: "hi" }] }, finishReason: "STOP" }],
  usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 },
};
const CHAT_ANSWER = {
  ...{ id: "c", object: "chat.completion", created: 1, model: "m" },
  choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content: "hi" } }],
};

/** A provider that speaks Gemini, another one that speaks Chat, and a model of both. */
async function gateway(t: Test, more = "", chatStatus = 200) {
  const json = { "content-type": "application/json" };
  const gemini = await httpUpstream(({ url, body }: SeenRequest, reply: ServerResponse) => {
    const name = JSON.parse(body.toString() || "{}").name;
    reply.writeHead(200, json).end(JSON.stringify(url.endsWith("/files") ? { file: { name } } : ANSWER));
  });
  const chat = await httpUpstream((_, reply) => {
    reply
      .writeHead(chatStatus, json)
      .end(JSON.stringify(chatStatus === 200 ? CHAT_ANSWER : { error: { message: "x" } }));
  });
  t.teardown(() => gemini.close());
  t.teardown(() => chat.close());
  const { url } = await startGateway(
    t,
    `providers:
  gemini: { url: "${gemini.origin.origin}/v1beta", speaks: [gemini], shared: ['gs://ours'] }
  chat: { url: "${chat.origin.origin}/v1", speaks: [openai-chat], shared: ['gs://ours'] }
models:
  m: { targets: [gemini:g] }
  either: { targets: [{ to: gemini:g, weight: 1000000 }, { to: chat:c, weight: 1 }] }
  other: { targets: [chat:c], fallback: [m] }
  native: { targets: [chat:c] }
paths:
  /v1beta/files: { pass: gemini, use: [auth] }
keys:
  mine: { key: ${KEYS.mine} }
  theirs: { key: ${KEYS.theirs} }
${more}`,
  );
  const ask = async (key: keyof typeof KEYS, path: string, body: object) => {
    const headers = { authorization: `Bearer ${KEYS[key]}`, "content-type": "application/json" };
    const answer = await fetch(url + path, { method: "POST", headers, body: JSON.stringify(body) });
    const { error } = (await answer.json()) as { error?: { code?: string; param?: string; message?: string } };
    return { status: answer.status, error };
  };
  return { ask, gemini, chat };
}

for (const [client, body, param] of NAMING)
  t.test(`${client}: an address of ${param} that is an object of the provider's belongs to its key`, async (t) => {
    const { ask, gemini } = await gateway(t);
    for (const name of ["files/abcdef123456", "files/abcdef123456.png", "files/abcdef123456.mp4"])
      t.equal((await ask("mine", "/v1beta/files", { name })).status, 200);
    const asked = { model: "m", ...body(OWN) };
    const made = gemini.seen.length;
    const refused = await ask("theirs", PATHS[client], asked);
    t.match(refused, { status: 404, error: { message: new RegExp(`^${param}: `) } });
    const elsewhere = body("https://us-storage.googleapis.com/bucket/results");
    t.equal((await ask("mine", PATHS[client], { model: "m", ...elsewhere })).status, 404);
    t.equal((await ask("mine", PATHS[client], { model: "m", ...body(`${OWN}%20`) })).status, 404, "no id at all");
    t.equal(gemini.seen.length, made, "the provider is not called");
    t.match(await ask("mine", PATHS[client], asked), { status: 200, error: undefined });
    const anybodys = await ask("theirs", PATHS[client], { model: "m", ...body("https://example.com/x") });
    t.match(anybodys, { status: 200, error: undefined });
    t.match(String(gemini.seen.at(-1)?.body), /"fileUri":"https:\/\/example\.com\/x/);
  });

const [, image] = NAMING.find(([, , param]) => param === "messages.0.content.0.image_url.url") ?? [];
const imageAt = (url: string) => image?.(url) ?? {};

t.test("an address that is an object to one provider only is sent to another, which reads it as public", async (t) => {
  const { ask, gemini, chat } = await gateway(t);
  t.equal((await ask("theirs", PATHS.chat, { model: "either", ...imageAt(OWN) })).status, 200);
  t.same([gemini.seen.length, chat.seen.length], [0, 1]);
});

t.test("a provider's failure is returned, where another one would have to read an object of another key", async (t) => {
  const { ask, gemini } = await gateway(t, "", 503);
  t.match(await ask("theirs", PATHS.chat, { model: "other", ...imageAt(OWN) }), {
    status: 503,
    error: { message: /answered 503/ },
  });
  t.equal(gemini.seen.length, 0);
});

t.test("addresses that are shared, and all with share: all, are for every key", async (t) => {
  const { ask } = await gateway(t);
  for (const url of ["https://storage.googleapis.com/ours/x", "https://ours.storage.googleapis.com/a/x"])
    t.equal((await ask("theirs", PATHS.chat, { model: "m", ...imageAt(url) })).status, 200, url);
  const all = await gateway(t, "share: all\n");
  t.equal((await all.ask("theirs", PATHS.chat, { model: "m", ...imageAt(OWN) })).status, 200);
});

t.test("an object in a bucket belongs to no key: it may be used where the bucket is shared, or all is", async (t) => {
  const parts = (fileUri: string) => [{ fileData: { mimeType: "image/png", fileUri } }];
  const native = (url: string) => ({ contents: [{ role: "user", parts: parts(url) }] });
  const one = await gateway(t);
  const all = await gateway(t, "share: all\n");
  for (const [path, body] of [
    [PATHS.chat, (url: string) => ({ model: "m", ...imageAt(url.slice(0, -".png".length)) })],
    ["/v1beta/models/m:generateContent", native],
  ] as const) {
    t.equal((await one.ask("mine", path, body("gs://results/x.png"))).status, 404, path);
    t.equal(one.gemini.seen.length, 0, "the provider is not called");
    t.equal((await one.ask("mine", path, body("gs://ours/a b/x.png"))).status, 200, path);
    t.match(String(one.gemini.seen.splice(0)[0]?.body), /"fileUri":"gs:\/\/ours\/a b\/x\.png"/);
    t.equal((await all.ask("mine", path, body("gs://results/x.png"))).status, 200, path);
  }
});

t.test(
  "a native Chat request may read only shared buckets; translated ones are checked by the objects sent",
  async (t) => {
    const { ask, chat } = await gateway(t);
    const native = (url: string) => ({
      model: "native",
      messages: [{ role: "user", content: [{ type: "image_url", image_url: { url } }] }],
    });
    t.match(await ask("mine", PATHS.chat, native("gs://theirs/x.png")), {
      status: 404,
      error: { param: "messages.0.content.0.image_url.url" },
    });
    t.equal(chat.seen.length, 0, "the provider is not called");
    t.equal((await ask("mine", PATHS.chat, native("gs://ours/x.png"))).status, 200);
    t.equal((await ask("mine", PATHS.chat, native("https://example.com/x.png"))).status, 200);
  },
);
