import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import type { DoneExchange } from "model-gateway";
import t from "tap";
import { requestedTokens, tokensInJson } from "../../../plugins/usage/requested.ts";
import { Body } from "../../../src/core/body.ts";
import type { Protocol } from "../../../src/core/protocol.ts";
import { loadProtocols } from "../../../src/loader/discover.ts";
import { Translations } from "../../../src/translation/translations.ts";

const protocols = new Map((await loadProtocols()).map((protocol) => [protocol.name, protocol]));
const chat = protocols.get("openai-chat") as Protocol;
const asking = (content: string, more: object = {}) => ({ messages: [{ role: "user", content }], ...more });

t.test("a request has the tokens of its texts, its turns and its tools", async (t) => {
  const words = "Tell me everything that you know about it. ".repeat(40);
  const plain = tokensInJson(asking(words), chat) as number;
  t.ok(plain >= 350 && plain <= 400, `${plain}`);
  const tool = { type: "function", function: { name: "find", description: words, parameters: { type: "object" } } };
  const withTool = tokensInJson(asking(words, { tools: [tool] }), chat) as number;
  t.ok(withTool - plain >= 150 && withTool - plain <= 300, `${withTool}`);
  const claude = tokensInJson(asking(words, { tools: [tool] }), chat, "anthropic/claude-sonnet-4-5") as number;
  t.ok(claude - withTool > 500, `${claude}`);
});

t.test("of a long text the beginning is counted, and the rest is estimated by its length", async (t) => {
  const words = "Tell me everything that you know about it. ".repeat(200_000);
  const tokens = tokensInJson(asking(words), chat) as number;
  t.ok(tokens > 1_700_000 && tokens < 1_900_000, `${tokens}`);
});

t.test("a request without a text has no estimate", async (t) => {
  t.equal(tokensInJson({ input: [[1, 2, 3]] }, protocols.get("openai-embeddings") as Protocol), undefined);
  t.equal(tokensInJson(null, chat), undefined);
  t.equal(tokensInJson(asking(""), chat), 7);
});

const CODE = readFileSync(new URL("../../../plugins/usage.ts", import.meta.url), "utf8");
const PROSE = readFileSync(new URL("../../../docs/pass.md", import.meta.url), "utf8");
/** Returns part of a text, another one for each number. */
const some = (text: string, n: number, length: number): string => {
  const from = (n * 7919) % text.length;
  return `${text}${text}`.slice(from, from + length);
};
const turns = (count: number, turn: (n: number) => object): object[] =>
  Array.from({ length: count }, (_, n) => turn(n));
const base64 = (bytes: number): string => randomBytes(bytes).toString("base64");

/** Estimates a request in pieces of 64 KiB, and returns the longest text that was parsed for it too. */
function estimateLong(json: object, protocol: Protocol, escapes = false) {
  const text = JSON.stringify(json);
  const unicode = (letter: string) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`;
  const bytes = Buffer.from(escapes ? text.replace(/[\u0080-\uffff]/g, unicode) : text);
  const pieces: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += 65_536) pieces.push(bytes.subarray(at, at + 65_536));
  const exchange = { protocol, body: new Body(pieces, "json"), attempts: [] } as unknown as DoneExchange;
  const { parse } = JSON;
  let parsed = 0;
  JSON.parse = (text, reviver) => {
    parsed = Math.max(parsed, text.length);
    return parse(text, reviver);
  };
  try {
    return { tokens: requestedTokens(exchange, Object.create(Translations.prototype)), parsed };
  } finally {
    JSON.parse = parse;
  }
}

t.test("of a long request only its media and samples of its text are read, with about the same result", async (t) => {
  const claude = protocols.get("anthropic-messages") as Protocol;
  const image = () => ({
    type: "image",
    source: { type: "base64", media_type: "image/png", data: base64(200_000) },
  });
  const cases: Record<string, [json: object, protocol: Protocol, media?: number, escapes?: true]> = {
    "one long text": [asking(PROSE.repeat(100)), chat],
    "many short turns": [{ messages: turns(4000, (n) => ({ role: "user", content: some(PROSE, n, 200) })) }, chat],
    "another script": [asking("Ждать, меня здесь не было. ".repeat(20_000)), chat],
    "another script in escapes": [asking("Ждать, меня здесь не было. ".repeat(20_000)), chat, 0, true],
    "code, half prose": [
      asking(CODE.repeat(20), {
        messages: turns(99, (n) => ({ role: "user", content: some(n % 2 ? CODE : PROSE, n, 4000) })),
      }),
      chat,
    ],
    "one image and few words": [
      { messages: [{ role: "user", content: [{ type: "text", text: "What is it?" }, image()] }] },
      claude,
      1600,
    ],
    "images between texts": [
      {
        messages: turns(20, (n) => ({
          role: "user",
          content: [{ type: "text", text: some(PROSE, n, 20_000) }, image()],
        })),
      },
      claude,
      32_000,
    ],
    "thoughts and calls": [
      {
        messages: turns(60, (n) => ({
          role: "assistant",
          content: [
            { type: "thinking", thinking: some(PROSE, n, 3000), signature: base64(3000) },
            { type: "tool_use", id: `toolu_${n}`, name: "edit", input: { path: "a.ts", text: some(CODE, n, 3000) } },
          ],
        })),
      },
      claude,
    ],
  };
  for (const [name, [json, protocol, media = 0, escapes]] of Object.entries(cases)) {
    const { tokens = 0, parsed } = estimateLong(json, protocol, escapes);
    const ratio = tokens / ((tokensInJson(json, protocol) as number) + media);
    t.ok(ratio > 0.94 && ratio < 1.06, `${name}: ${ratio}`);
    t.ok(parsed <= 131_072, `${name}: ${parsed}`);
  }
});

t.test("a long request's names are read as they are written, whatever names have been read before", async (t) => {
  const image_url = { url: `data:image/png;base64,${base64(300_000)}` };
  const content = [
    { type: "text", text: some(PROSE, 1, 2000) },
    { type: "image_url", image_url },
  ];
  const text = JSON.stringify({ first: 1, messages: [{ role: "user", content }] });
  const estimate = (json: string) => {
    const exchange = { protocol: chat, body: new Body([Buffer.from(json)], "json"), attempts: [] };
    return requestedTokens(exchange as unknown as DoneExchange, Object.create(Translations.prototype));
  };
  // V8 takes the second one's name for the first one's.
  JSON.parse('{"first":1,"message\\\\":2}');
  const hidden = estimate(text.replace('"messages"', '"message\\u0073"'));
  t.ok((hidden as number) > 300);
  t.equal(hidden, estimate(text));
});

t.test("a long request without words has no estimate", async (t) => {
  const numbers = { input: Array(200_000).fill(12_345) };
  t.equal(estimateLong(numbers, protocols.get("openai-embeddings") as Protocol).tokens, undefined);
});
