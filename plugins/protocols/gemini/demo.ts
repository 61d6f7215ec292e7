import {
  asCount,
  asList,
  asObject,
  asText,
  type DemoAnswer,
  type DemoFrame,
  type DemoRequest,
  type DemoScript,
  demoFault,
  demoId,
  demoPause,
  demoRefusal,
  demoScript,
  demoStream,
  demoTokens,
  demoWhole,
  faultOf,
  type JsonObject,
  type Operation,
  sampleOf,
  textOf,
} from "model-gateway/protocol";
import { embedding } from "./embedding.ts";
import { breakOff, errorBody } from "./errors.ts";
import { picture } from "./picture.ts";

/** What the vendor counts for a small picture. */
const PICTURE_TOKENS = 258;

/** Milliseconds before a stream breaks off, so that what was sent has been read: clients drop what lies behind it. */
const SETTLE = 100;

/** A part of the answer, and milliseconds to wait before it. */
interface Piece {
  part: JsonObject;
  after?: number;
}

/** The demo provider's answers; a request is answered the same however often it is sent. */
export function demo(request: DemoRequest): DemoAnswer {
  const id = demoId(request);
  const fault = demoFault(request.model, request.streaming);
  if (fault)
    return demoRefusal(fault, errorBody(fault.kind === "rate_limit" ? { ...fault, retryAfter: 1 } : fault, id));
  const body = asObject(request.body) ?? {};
  const { name, framing } = request.operation;
  if (name === "countTokens") return demoWhole(counted(body));
  if (name === "embedContent") return demoWhole(embedded(body));
  if (name === "batchEmbedContents") return demoWhole(embeddedAll(body));
  const script = scriptOf(request.model, body);
  const about = { modelVersion: request.model, responseId: id };
  if (!request.streaming) {
    const parts = joined(piecesOf(request.model, script, id)).map(({ part }) => part);
    return demoWhole(chunk(parts, finishOf(script), usageOf(body, parts), about), script);
  }
  const stream = demoStream(streamed(request, script, body, about));
  return framing === "sse" ? stream : { ...stream, headers: { "content-type": "application/json; charset=UTF-8" } };
}

/** The last content decides: a function's result in it comes before its text. */
function scriptOf(model: string, body: JsonObject): DemoScript<JsonObject> {
  const turns = asList(body["contents"]).map(asObject);
  const parts = asList(turns.findLast((turn) => turn?.["role"] !== "model")?.["parts"]);
  const results = parts.map((part) => asObject(either(part, "functionResponse"))?.["response"]);
  const result = results.findLast((response) => response !== undefined);
  const script = demoScript(model, {
    text: textOf(parts),
    tools: callable(body),
    result: result === undefined ? undefined : (asText(asObject(result)?.["output"]) ?? JSON.stringify(result)),
    limit: asCount(either(either(body, "generationConfig"), "maxOutputTokens")),
  });
  return model === "image" ? { ...script, pieces: ["Here is ", "a picture."] } : script;
}

/** Declared functions that may be called, the allowed ones only. */
function callable(body: JsonObject): JsonObject[] {
  const rules = asObject(either(either(body, "toolConfig"), "functionCallingConfig"));
  if (rules?.["mode"] === "NONE") return [];
  const allowed = asList(either(rules, "allowedFunctionNames"));
  const declared = asList(body["tools"]).flatMap((tool) => asList(either(tool, "functionDeclarations")));
  const functions = declared.map(asObject).filter((each): each is JsonObject => each !== undefined);
  return functions.filter((each) => allowed.length === 0 || allowed.includes(each["name"]));
}

/** The answer in pieces: thoughts, then a call or a text, then a picture. */
function piecesOf(model: string, script: DemoScript<JsonObject>, id: string): Piece[] {
  const { reasoning, call } = script;
  const thoughtSignature = Buffer.from(`A signature of the demo, worth nothing elsewhere: ${id}`).toString("base64");
  const thoughts = reasoning?.split(/(?<= )/) ?? [];
  const pieces: Piece[] = thoughts.map((text) => ({ part: { text, thought: true } }));
  if (call) {
    const args = sampleOf(either(call, "parametersJsonSchema") ?? call["parameters"]);
    return [
      ...pieces,
      { part: { functionCall: { id: `call_${id}`, name: asText(call["name"]) ?? "", args }, thoughtSignature } },
    ];
  }
  pieces.push(...script.pieces.map((text, n) => ({ part: { text }, after: demoPause(script, n) })));
  if (reasoning !== undefined) pieces.push({ part: { text: "", thoughtSignature } });
  if (model === "image")
    pieces.push({ part: { inlineData: { mimeType: "image/png", data: picture().toString("base64") } } });
  return pieces;
}

/** Neighbouring texts of one kind as one part, as they are in a whole answer. */
function joined(pieces: readonly Piece[]): Piece[] {
  const whole: Piece[] = [];
  for (const { part } of pieces) {
    const last = whole.at(-1)?.part;
    const alike =
      last &&
      asText(last["text"]) !== undefined &&
      asText(part["text"]) !== undefined &&
      last["thought"] === part["thought"];
    if (alike) whole[whole.length - 1] = { part: { ...last, ...part, text: `${last["text"]}${part["text"]}` } };
    else whole.push({ part });
  }
  return whole;
}

/** Every frame repeats model, id and the usage so far, as the vendor's do. */
function streamed(
  { operation, model }: DemoRequest,
  script: DemoScript<JsonObject>,
  body: JsonObject,
  about: JsonObject,
): DemoFrame[] {
  const pieces = piecesOf(model, script, asText(about["responseId"]) ?? "");
  const broken = script.end === "error" || script.end === "cut";
  const frames = pieces.map(({ part, after = 0 }, n) => {
    const finish = broken || n < pieces.length - 1 ? undefined : finishOf(script);
    const usage = usageOf(
      body,
      joined(pieces.slice(0, n + 1)).map((piece) => piece.part),
    );
    return { after, bytes: framed(operation, chunk([part], finish, usage, about), n) };
  });
  if (script.end === "cut") return [...frames, { after: SETTLE, bytes: "", cut: true }];
  if (script.end === "error") return [...frames, { after: SETTLE, bytes: failure(operation, frames.at(-1)?.bytes) }];
  if (frames.length === 0)
    frames.push({ after: 0, bytes: framed(operation, chunk([], finishOf(script), usageOf(body, []), about), 0) });
  return operation.framing === "array" ? [...frames, { bytes: "\n]" }] : frames;
}

/** A stream's frames: events with the vendor's line ends, or elements of an array with its separators. */
function framed(operation: Operation, value: unknown, n: number): Buffer {
  const json = JSON.stringify(value);
  if (operation.framing === "sse") return Buffer.from(`data: ${json}\r\n\r\n`);
  return Buffer.from(`${n === 0 ? "[" : "\n,\r\n"}${json}`);
}

function failure(operation: Operation, last: Buffer | undefined): Buffer {
  const fault = faultOf(503, "This is the error in a stream that the demo model error-stream is for.");
  return breakOff(errorBody(fault, "demo"), operation, last);
}

const finishOf = (script: DemoScript<unknown>): string => (script.end === "length" ? "MAX_TOKENS" : "STOP");

function chunk(
  parts: readonly JsonObject[],
  finishReason: string | undefined,
  usageMetadata: JsonObject,
  about: JsonObject,
) {
  // An undefined member does not appear in JSON.
  return { candidates: [{ content: { parts, role: "model" }, finishReason, index: 0 }], usageMetadata, ...about };
}

function usageOf(body: JsonObject, parts: readonly JsonObject[]): JsonObject {
  const prompt = inputTokens(body);
  const thoughts = demoTokens(parts.map((part) => (part["thought"] === true ? asText(part["text"]) : "")).join(""));
  const uses = parts.filter((part) => part["thought"] !== true);
  const text = demoTokens(uses.map((part) => asText(part["text"]) ?? "").join(""));
  const calls = uses.map((part) => asObject(part["functionCall"])).filter((call) => call !== undefined);
  const images = uses.filter((part) => part["inlineData"] !== undefined).length * PICTURE_TOKENS;
  const candidates = text + demoTokens(calls.map((call) => JSON.stringify(call["args"])).join("")) + images;
  return {
    promptTokenCount: prompt,
    candidatesTokenCount: candidates,
    totalTokenCount: prompt + candidates + thoughts,
    promptTokensDetails: textDetails(prompt),
    candidatesTokensDetails: images > 0 ? [{ modality: "IMAGE", tokenCount: images }] : undefined,
    thoughtsTokenCount: thoughts > 0 ? thoughts : undefined,
  };
}

const textDetails = (tokenCount: number) => [{ modality: "TEXT", tokenCount }];

/** The request to be counted stands at top level or, whole, in `generateContentRequest`. */
function counted(body: JsonObject) {
  const totalTokens = inputTokens(asObject(either(body, "generateContentRequest")) ?? body);
  return { totalTokens, promptTokensDetails: textDetails(totalTokens) };
}

function embedded(body: JsonObject) {
  const text = embeddedText(body);
  const tokens = demoTokens(text);
  const usageMetadata = { promptTokenCount: tokens, totalTokenCount: tokens, promptTokensDetails: textDetails(tokens) };
  return { embedding: { values: embedding(text, dimensions(body)) }, usageMetadata };
}

function embeddedAll(body: JsonObject) {
  const requests = asList(body["requests"]).map((each) => asObject(each) ?? {});
  const tokens = demoTokens(requests.map(embeddedText).join(""));
  const embeddings = requests.map((each) => ({ values: embedding(embeddedText(each), dimensions(each)) }));
  // Here the vendor writes promptTokenDetails. [F]
  return { embeddings, usageMetadata: { promptTokenCount: tokens, promptTokenDetails: textDetails(tokens) } };
}

const embeddedText = (request: JsonObject): string => textOf(asObject(request["content"])?.["parts"]);

const dimensions = (request: JsonObject): number | undefined => asCount(either(request, "outputDimensionality"));

/** A member in either spelling: the vendor takes `functionCall` and `function_call` alike. [F] */
function either(value: unknown, name: string): unknown {
  const members = asObject(value);
  return members?.[name] ?? members?.[name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)];
}

/** What the request's text would cost, media left out. */
function inputTokens(body: JsonObject): number {
  const asked = [either(body, "systemInstruction"), body["contents"], body["tools"]];
  return demoTokens([...strings(asked)].join(""));
}

function* strings(value: unknown): Generator<string> {
  if (typeof value === "string") yield value;
  else if (typeof value === "object" && value !== null)
    for (const [name, member] of Object.entries(value))
      if (name !== "data" && !/^thought_?[sS]ignature$/.test(name)) yield* strings(member);
}
