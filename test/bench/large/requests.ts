import { Buffer } from "node:buffer";

/** How a body is written to the socket. */
export type Writing = "whole" | "chunks" | "segments";

/** A large request. */
export interface LargeRequest {
  path: string;
  headers?: string;
  body: Buffer;
  /** `chunks`: HTTP chunks of 800 bytes; `segments`: writes of 800 bytes; default: whole. */
  writing?: Writing;
  /** Without a key: it is refused, and sends its whole body nevertheless. */
  keyless?: boolean;
}

const SIZE = 31 << 20;
const CHAT = "/v1/chat/completions";
const MESSAGES = 20_000;

const fill = (start: string, what: string | Buffer, end: string, size = SIZE): Buffer => {
  const [head, tail] = [Buffer.from(start), Buffer.from(end)];
  const length = Math.floor((size - head.length - tail.length) / what.length) * what.length;
  return Buffer.concat([head, Buffer.alloc(length, what), tail]);
};
const chatBody = (start: string, what: string, end: string): Buffer =>
  fill(`{"model":"same","messages":[{"role":"user","content":${start}`, what, `${end}}]}`);

const PLAIN = "The quick brown fox jumps over the lazy dog, and then it does so once more for good measure. ";

const form = (what: string | Buffer, first: boolean): LargeRequest => {
  const model = '--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nhear\r\n';
  const file =
    '--b\r\nContent-Disposition: form-data; name="file"; filename="a.png"\r\nContent-Type: image/png\r\n\r\n';
  return {
    path: "/v1/images/edits",
    headers: "Content-Type: multipart/form-data; boundary=b\r\n",
    body: first ? fill(model + file, what, "\r\n--b--\r\n") : fill(file, what, `\r\n${model}--b--\r\n`),
  };
};

/** Returns bytes that look like compressed audio. */
function noise(): Buffer {
  const bytes = Buffer.alloc(1 << 20);
  let seed = 7;
  for (let i = 0; i < bytes.length; i++) {
    seed = (Math.imul(seed, 1103515245) + 12345) & 0x7fffffff;
    bytes[i] = seed >> 16;
  }
  return bytes;
}

const roles = (i: number): string => (i % 2 ? "assistant" : "user");
const numbered = <Each>(make: (i: number) => Each): Each[] => Array.from({ length: MESSAGES - 1 }, (_, i) => make(i));
const content = (i: number): string => `Message number ${i}: is it cold outside, and what shall I wear?`;

/** A conversation of 20,000 messages, in each client's protocol. */
const conversations: Record<string, (model: string) => LargeRequest> = {
  chat: (model) => ({
    path: CHAT,
    body: json({ model, messages: numbered((i) => ({ role: roles(i), content: content(i) })) }),
  }),
  messages: (model) => ({
    path: "/v1/messages",
    body: json({ model, max_tokens: 9, messages: numbered((i) => ({ role: roles(i), content: content(i) })) }),
  }),
  responses: (model) => ({
    path: "/v1/responses",
    body: json({ model, input: numbered((i) => ({ role: roles(i), content: content(i) })) }),
  }),
  gemini: (model) => ({
    path: `/v1beta/models/${model}:generateContent`,
    body: json({
      // Three names each, and the limit is 50,000.
      contents: numbered((i) => ({ role: i % 2 ? "model" : "user", parts: [{ text: content(i) }] })).slice(0, 16_001),
    }),
  }),
};
/** Of the 50,000 member names that a body may have. */
const NAMES = 47_000;
const object = Object.fromEntries(Array.from({ length: NAMES }, (_, i) => [`name ${i}`, i]));
const schema = {
  type: "object",
  properties: Object.fromEntries(Array.from({ length: NAMES / 2 }, (_, i) => [`name ${i}`, { type: "string" }])),
};

/** A conversation with one object of very many names: the arguments of a call, or a tool's schema. */
const objects: Record<string, (model: string) => LargeRequest> = {
  "a call's arguments, messages": (model) => ({
    path: "/v1/messages",
    body: json({
      ...{ model, max_tokens: 9 },
      messages: [
        { role: "user", content: "a" },
        { role: "assistant", content: [{ type: "tool_use", id: "t", name: "f", input: object }] },
        { role: "user", content: [{ type: "tool_result", tool_use_id: "t", content: "b" }] },
      ],
    }),
  }),
  "a tool's schema, messages": (model) => ({
    path: "/v1/messages",
    body: json({
      ...{ model, max_tokens: 9, messages: [{ role: "user", content: "a" }] },
      tools: [{ name: "f", input_schema: schema }],
    }),
  }),
  "a tool's schema, chat": (model) => ({
    path: CHAT,
    body: json({
      ...{ model, messages: [{ role: "user", content: "a" }] },
      tools: [{ type: "function", function: { name: "f", parameters: schema } }],
    }),
  }),
  "a tool's schema, responses": (model) => ({
    path: "/v1/responses",
    body: json({ model, input: "a", tools: [{ type: "function", name: "f", parameters: schema, strict: false }] }),
  }),
  "a call's arguments, gemini": (model) => ({
    path: `/v1beta/models/${model}:generateContent`,
    body: json({
      contents: [
        { role: "user", parts: [{ text: "a" }] },
        { role: "model", parts: [{ functionCall: { name: "f", args: object } }] },
        { role: "user", parts: [{ functionResponse: { name: "f", response: { output: "b" } } }] },
      ],
    }),
  }),
};
const json = (value: unknown): Buffer => Buffer.from(JSON.stringify(value));

/** The requests by name, created on use. */
export const requests: Record<string, () => LargeRequest> = {
  "1.5 MB of text": () => ({
    path: CHAT,
    body: fill('{"model":"same","messages":[{"role":"user","content":"', PLAIN, '"}]}', 1.5e6),
  }),
  text: () => ({ path: CHAT, body: chatBody('"', PLAIN, '"') }),
  "text in chunks": () => ({ path: CHAT, body: chatBody('"', PLAIN, '"'), writing: "chunks" }),
  "text in segments": () => ({ path: CHAT, body: chatBody('"', PLAIN, '"'), writing: "segments" }),
  "text without a key": () => ({ path: CHAT, body: chatBody('"', PLAIN, '"'), keyless: true }),
  "text in chunks without a key": () => ({
    path: CHAT,
    body: chatBody('"', PLAIN, '"'),
    writing: "chunks",
    keyless: true,
  }),
  "short texts": () => ({
    path: CHAT,
    body: chatBody(
      '["a"',
      ',"Is it cold outside today, and what shall I wear tonight, if it is not to be too warm?"',
      "]",
    ),
  }),
  "one text of \\n": () => ({ path: CHAT, body: chatBody('"', "\\n", '"') }),
  'one text of \\"': () => ({ path: CHAT, body: chatBody('"', '\\"', '"') }),
  "texts of \\u": () => ({ path: CHAT, body: chatBody('["a"', `,"${"\\u0061".repeat(60)}"`, "]") }),
  "short texts of \\u": () => ({ path: CHAT, body: chatBody('["a"', `,"${"\\u0061".repeat(16)}"`, "]") }),
  "short texts of \\n": () => ({ path: CHAT, body: chatBody('["a"', `,"${"\\n".repeat(50)}"`, "]") }),
  "blanks inside": () => ({ path: CHAT, body: chatBody("[", " ", "]") }),
  "lines inside": () => ({ path: CHAT, body: chatBody("[", "\n        ", "]") }),
  "blanks outside": () => ({
    path: CHAT,
    body: fill('{"model":"same",', " ", '"messages":[{"role":"user","content":"a"}]}'),
  }),
  "blanks between": () => ({ path: CHAT, body: chatBody("[0", `${" ".repeat(90)},0`, "]") }),
  "form, model first": () => form(noise(), true),
  "form, model last": () => form(noise(), false),
  "form of near-delimiters, model first": () => form("\r\n--", true),
  "form of near-delimiters, model last": () => form("\r\n--", false),
  "form in chunks, model first": () => ({ ...form(noise(), true), writing: "chunks" }),
  "form in chunks, model last": () => ({ ...form(noise(), false), writing: "chunks" }),
  "form in segments, model last": () => ({ ...form(noise(), false), writing: "segments" }),
  "form of near-delimiters in chunks, model last": () => ({ ...form("\r\n--", false), writing: "chunks" }),
  ...Object.fromEntries(
    Object.entries(objects).flatMap(([client, make]) =>
      ["chat", "messages", "responses", "gemini"].map((target) => [
        `47,000 names, ${client} to ${target}`,
        () => make(`to-${target}`),
      ]),
    ),
  ),
  ...Object.fromEntries(
    Object.entries(conversations).flatMap(([client, make]) =>
      ["chat", "messages", "responses", "gemini"].map((target) => [
        `20,000 messages, ${client} to ${target}`,
        () => make(`to-${target}`),
      ]),
    ),
  ),
};
