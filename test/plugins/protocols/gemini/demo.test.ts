import { type Content, type GenerateContentConfig, GoogleGenAI, type Part } from "@google/genai";
import { GoogleGenAI as GoogleGenAI2 } from "@google/genai-2";
import type { Test } from "tap";
import t from "tap";
import { embedding } from "../../../../plugins/protocols/gemini/demo.ts";
import protocol from "../../../../plugins/protocols/gemini/index.ts";
import type { DemoRequest, Operation } from "../../../../src/core/protocol.ts";
import { demoAnswer } from "../../../../src/translation/demo.ts";
import { Demo } from "../../../../src/upstream/demo.ts";
import { eventsIn } from "../../../support/recorded.ts";

const demo = new Demo([protocol]);
const baseUrl = (await demo.start()).href;
t.teardown(() => demo.close());

type Sdk = GoogleGenAI;
const options = { apiKey: "key", httpOptions: { baseUrl } };
const SDKS: Readonly<Record<string, Sdk>> = {
  "genai 3": new GoogleGenAI(options),
  "genai 2": new GoogleGenAI2(options) as unknown as Sdk,
};

const WEATHER = {
  name: "get_weather",
  parametersJsonSchema: {
    type: "object",
    properties: { city: { type: "string", enum: ["Oslo"] } },
    required: ["city"],
  },
};
const ask = (
  model: string,
  contents: string | Content[] = "Hello, wide world!",
  config: GenerateContentConfig = {},
) => ({ model, contents, config });

interface Answer {
  parts: Part[];
  text: string;
  finish: string | undefined;
  usage: unknown;
}

async function whole(sdk: Sdk, ...asked: Parameters<typeof ask>): Promise<Answer> {
  const { candidates, usageMetadata } = await sdk.models.generateContent(ask(...asked));
  const [candidate] = candidates ?? [];
  const parts = candidate?.content?.parts ?? [];
  return { parts, text: uses(parts), finish: candidate?.finishReason, usage: usageMetadata };
}

async function streamed(sdk: Sdk, ...asked: Parameters<typeof ask>): Promise<Answer> {
  const answer: Answer = { parts: [], text: "", finish: undefined, usage: undefined };
  for await (const { candidates, usageMetadata } of await sdk.models.generateContentStream(ask(...asked))) {
    const [candidate] = candidates ?? [];
    answer.parts.push(...(candidate?.content?.parts ?? []));
    answer.finish = candidate?.finishReason;
    answer.usage = usageMetadata;
  }
  return { ...answer, text: uses(answer.parts) };
}

/** The text of an answer without its thoughts. */
const uses = (parts: readonly Part[]) => parts.map(({ text = "", thought }) => (thought ? "" : text)).join("");

/** A subtest with each SDK. */
async function withSdks(t: Test, check: (t: Test, sdk: Sdk) => Promise<void>): Promise<void> {
  for (const [name, sdk] of Object.entries(SDKS)) await t.test(name, (t) => check(t, sdk));
}

t.test("a streamed answer equals the whole answer, usage included", (t) =>
  withSdks(t, async (t, sdk) => {
    for (const model of ["echo", "tool", "reasoning", "image", "long"]) {
      const config = { tools: [{ functionDeclarations: [WEATHER] }] };
      const [one, other] = [
        await whole(sdk, model, "Hello, wide world!", config),
        await streamed(sdk, model, "Hello, wide world!", config),
      ];
      t.equal(other.text, one.text, model);
      t.same(
        other.parts.find((part) => part.functionCall)?.functionCall?.args,
        one.parts.find((part) => part.functionCall)?.functionCall?.args,
      );
      t.same(
        other.parts.find((part) => part.inlineData),
        one.parts.find((part) => part.inlineData),
        model,
      );
      t.same([other.finish, other.usage], [one.finish, one.usage], model);
      t.equal(one.finish, "STOP");
    }
  }),
);

t.test("echo repeats the user's last text", (t) =>
  withSdks(t, async (t, sdk) => {
    const contents: Content[] = [
      { role: "user", parts: [{ text: "first" }] },
      { role: "model", parts: [{ text: "second" }] },
      { role: "user", parts: [{ text: "Schöne 🌍\n\n  tschüß" }] },
    ];
    t.equal((await streamed(sdk, "echo", contents)).text, "Schöne 🌍\n\n  tschüß");
    const chat = sdk.chats.create({ model: "echo" });
    t.equal((await chat.sendMessage({ message: "one" })).text, "one");
    for await (const _ of await chat.sendMessageStream({ message: "two words" }));
    const kept = chat.getHistory(true).filter(({ role }) => role === "user");
    t.equal(kept.length, 2, "the SDK accepts both answers as valid");
  }),
);

t.test("tool calls the first function, or the allowed one, and answers with its result", (t) =>
  withSdks(t, async (t, sdk) => {
    for (const create of [whole, streamed]) {
      const config = { tools: [{ googleSearch: {} }, { functionDeclarations: [WEATHER] }] };
      const question: Content = { role: "user", parts: [{ text: "Weather?" }] };
      const first = await create(sdk, "tool", [question], config);
      const call = first.parts[0]?.functionCall;
      t.match(first.parts, [{ functionCall: { id: /./, name: "get_weather", args: { city: "Oslo" } } }]);
      const functionResponse = { id: call?.id as string, name: "get_weather", response: { output: "Snow." } };
      const turns: Content[] = [
        question,
        { role: "model", parts: first.parts },
        { role: "user", parts: [{ functionResponse }] },
      ];
      t.match(await create(sdk, "tool", turns, config), { text: "The tool answered: Snow.", finish: "STOP" });
    }
    const config = {
      tools: [{ functionDeclarations: [WEATHER, { ...WEATHER, name: "other" }] }],
      toolConfig: { functionCallingConfig: { mode: "ANY" as never, allowedFunctionNames: ["other"] } },
    };
    t.match((await whole(sdk, "tool", "x", config)).parts, [{ functionCall: { name: "other" } }]);
    t.match(await whole(sdk, "tool"), { text: /No tool/ });
  }),
);

t.test("reasoning thinks, signs and answers", (t) =>
  withSdks(t, async (t, sdk) => {
    for (const create of [whole, streamed]) {
      const config = { thinkingConfig: { includeThoughts: true } };
      const { parts, text, usage } = await create(sdk, "reasoning", "Hello, wide world!", config);
      t.match(parts[0], { thought: true, text: /^The / });
      t.equal(text, "Hello, wide world!");
      t.ok(parts.find((part) => part.thought && part.thoughtSignature));
      t.ok((usage as { thoughtsTokenCount: number }).thoughtsTokenCount > 0);
    }
  }),
);

t.test("image draws, an answer longer than its limit stops there", (t) =>
  withSdks(t, async (t, sdk) => {
    const { parts } = await whole(sdk, "image");
    t.match(parts, [{ text: /./ }, { inlineData: { mimeType: "image/png", data: /^iVBORw0KGgo/ } }]);
    t.match(await streamed(sdk, "long", "x", { maxOutputTokens: 20 }), {
      finish: "MAX_TOKENS",
      usage: { candidatesTokenCount: 20 },
    });
  }),
);

t.test("errors have the vendor's status and name", (t) =>
  withSdks(t, async (t, sdk) => {
    const names = {
      400: "INVALID_ARGUMENT",
      401: "UNAUTHENTICATED",
      403: "PERMISSION_DENIED",
      404: "NOT_FOUND",
      429: "RESOURCE_EXHAUSTED",
    };
    for (const [status, name] of Object.entries({
      ...names,
      500: "INTERNAL",
      503: "UNAVAILABLE",
      504: "DEADLINE_EXCEEDED",
    }))
      for (const create of [whole, streamed]) {
        const error = await failed(create(sdk, `error-${status}`));
        t.match(error, { name: "ApiError", status: Number(status) });
        t.match(JSON.parse((error as Error).message), { error: { code: Number(status), status: name, message: /./ } });
      }
    t.match(await failed(whole(sdk, "gemini-99")), { status: 404, message: /has no model/ });
  }),
);

t.test("error-stream and cut begin correctly and end in failure", (t) =>
  withSdks(t, async (t, sdk) => {
    for (const [model, error] of [
      ["error-stream", { name: "ApiError", status: 500 }],
      ["cut", Error],
    ] as const) {
      let text = "";
      const reading = async () => {
        for await (const chunk of await sdk.models.generateContentStream(ask(model))) text += chunk.text;
      };
      t.match(await failed(reading()), error, model);
      t.match(text, /^This answer/, model);
    }
  }),
);

t.test("tokens are counted as they are billed, and texts are embedded", (t) =>
  withSdks(t, async (t, sdk) => {
    const { totalTokens } = await sdk.models.countTokens({ model: "echo", contents: "Hello, wide world!" });
    t.match(await whole(sdk, "echo"), { usage: { promptTokenCount: totalTokens } });
    const { embeddings } = await sdk.models.embedContent({
      model: "echo",
      contents: ["one", "two"],
      config: { outputDimensionality: 8 },
    });
    t.same(
      embeddings?.map(({ values }) => values?.length),
      [8, 8],
    );
    t.match(await failed(sdk.models.countTokens({ model: "nothing", contents: "x" })), { status: 404 });
  }),
);

const operation = (action: string, query = "") =>
  protocol.locate("/v1beta/models/*", `m:${action}`, new URLSearchParams(query))?.operation as Operation;

function answer(action: string, model: string, body: unknown, query = "") {
  const found = operation(action, query);
  const request: DemoRequest = {
    operation: found,
    model,
    body,
    streaming: found.streams === true,
  };
  return demoAnswer(protocol, request);
}

const HELLO = { contents: [{ role: "user", parts: [{ text: "Hello" }] }] };
const written = (...asked: Parameters<typeof answer>) =>
  answer(...asked)
    .frames.map(({ bytes }) => bytes.toString())
    .join("");

t.test("streams are events, or one array", async (t) => {
  const events = written("streamGenerateContent", "long", HELLO, "alt=sse");
  t.match(events, /^(data: \{.*\}\n\n){401}$/);
  const frames = eventsIn(events).map((frame) => frame.json());
  const array = written("streamGenerateContent", "long", HELLO);
  t.match(array, /^\[\{.*\},\r\n\{[\s\S]*\}\]$/);
  t.same(
    JSON.parse(array).map(({ candidates }: { candidates: unknown }) => candidates),
    frames.map((frame) => (frame as { candidates: unknown }).candidates),
  );
  const broken = JSON.parse(written("streamGenerateContent", "error-stream", HELLO));
  t.match(broken.at(-1), { error: { code: 500, status: "INTERNAL" } });
});

t.test("slow waits before its first piece, and busy models say how long to wait", async (t) => {
  const { frames } = answer("streamGenerateContent", "slow", HELLO, "alt=sse");
  t.same(
    frames.map(({ after }) => after),
    [1500, 300, 300, 300, 300, 300, undefined],
  );
  const busy = answer("generateContent", "error-429", HELLO);
  t.equal(busy.headers["retry-after"], "1");
  t.match(JSON.parse(String(busy.frames[0]?.bytes)).error.details, [{}, {}, { retryDelay: "1s" }]);
});

t.test("both spellings are accepted", async (t) => {
  const body = {
    ...HELLO,
    tools: [
      {
        function_declarations: [{ name: "f", parameters: { type: "OBJECT", properties: { n: { type: "INTEGER" } } } }],
      },
    ],
  };
  const call = JSON.parse(written("generateContent", "tool", body)).candidates[0].content.parts[0].functionCall;
  t.match(call, { name: "f", args: { n: 1 } });
  const parts = [{ function_response: { name: "f", response: { rows: 2 } } }];
  t.match(
    written("generateContent", "tool", {
      contents: [
        { role: "model", parts: [{ function_call: { name: "f" } }] },
        { role: "function", parts },
      ],
    }),
    /The tool answered: \{\\"rows\\":2\}/,
  );
  const counted = (request: object) => JSON.parse(written("countTokens", "echo", request)).totalTokens;
  t.equal(counted({ generateContentRequest: HELLO }), counted(HELLO));
  const embedded = JSON.parse(
    written("embedContent", "echo", { content: { parts: [{ text: "x" }] }, output_dimensionality: 5 }),
  );
  t.equal(embedded.embedding.values.length, 5);
});

/** What a promise is rejected with. */
const failed = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => undefined,
    (error) => error,
  );

const likeness = (a: number[], b: number[]) => a.reduce((sum, value, i) => sum + value * (b[i] as number), 0);

t.test("a vector has length 1 and the requested dimensions, within bounds", async (t) => {
  for (const [asked, got] of [
    [undefined, 768],
    [3, 3],
    [0, 1],
    [9999, 3072],
  ] as const) {
    const vector = embedding("some words", asked);
    t.equal(vector.length, got);
    t.ok(Math.abs(likeness(vector, vector) - 1) < 1e-9);
  }
  t.ok(Math.abs(likeness(embedding(""), embedding("")) - 1) < 1e-9);
});

t.test("texts that share words are similar, and the same text is identical", async (t) => {
  const cat = embedding("The cat sat on the mat");
  t.same(embedding("The cat sat on the mat"), cat);
  t.ok(likeness(cat, embedding("the CAT on a mat!")) > likeness(cat, embedding("quarterly revenue grew")));
});

t.test("very many texts to embed are refused, and of a long one the start is read, as at the vendor", async (t) => {
  const batch = (count: number) =>
    fetch(`${baseUrl}v1beta/models/echo:batchEmbedContents`, {
      method: "POST",
      body: JSON.stringify({ requests: Array(count).fill({ content: { parts: [{ text: "a" }] } }) }),
    });
  const refused = await batch(1000);
  t.equal(refused.status, 400);
  t.match(await refused.json(), { error: { message: /at most 100 requests/ } });
  const answered = (await (await batch(100)).json()) as { embeddings: unknown[] };
  t.equal(answered.embeddings.length, 100);
  t.same(embedding("word ".repeat(1_000_000), 8), embedding("word ".repeat(10_000), 8));
});
