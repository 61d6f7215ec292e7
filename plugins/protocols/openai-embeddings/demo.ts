import { hash } from "node:crypto";
import {
  asCount,
  asList,
  asObject,
  asText,
  type DemoAnswer,
  type DemoRequest,
  demoFault,
  demoScript,
  demoTokens,
  demoWhole,
  GatewayError,
} from "model-gateway/protocol";

const DEFAULT_DIMENSIONS = 64;
const MAX_DIMENSIONS = 4096;
/** Maximum numbers in one response: all are made in one turn of the event loop. */
const MAX_NUMBERS = 2 ** 18;

/**
 * Returns the demo provider's embeddings: vectors of length 1 that are the same for the same text.
 * @throws GatewayError `invalid_field` for too many
 */
export function demo(request: DemoRequest): DemoAnswer | undefined {
  if (demoFault(request.model, request.streaming)) return undefined;
  const body = asObject(request.body) ?? {};
  const inputs = inputsOf(body["input"]);
  const dimensions = Math.min(MAX_DIMENSIONS, asCount(body["dimensions"]) || DEFAULT_DIMENSIONS);
  if (inputs.length * dimensions > MAX_NUMBERS)
    throw new GatewayError("invalid_field", {
      message: `input: the demo provider gives ${MAX_NUMBERS} numbers at most, and not ${inputs.length} vectors of ${dimensions}.`,
      param: "input",
    });
  const data = inputs.map((input, index) => {
    const vector = vectorOf(input.text, dimensions);
    const embedding =
      body["encoding_format"] === "base64" ? Buffer.from(vector.buffer).toString("base64") : Array.from(vector);
    return { object: "embedding", index, embedding };
  });
  const tokens = inputs.reduce((sum, input) => sum + input.tokens, 0);
  const usage = { prompt_tokens: tokens, total_tokens: tokens };
  const model = asText(body["model"]) ?? request.model;
  const script = demoScript(request.model, { text: "", tools: [] });
  return demoWhole({ object: "list", data, model, usage }, script);
}

/** Returns the inputs of a text, a list of texts, a list of tokens, or a list of lists of tokens. */
function inputsOf(input: unknown): { text: string; tokens: number }[] {
  const list = asList(input);
  if (typeof input === "string") return inputsOf([input]);
  if (typeof list[0] === "number") return inputsOf([list]);
  return list.map((entry) => {
    const text = asText(entry);
    return text === undefined
      ? { text: JSON.stringify(entry), tokens: asList(entry).length }
      : { text, tokens: demoTokens(text) };
  });
}

function vectorOf(text: string, dimensions: number): Float32Array {
  const vector = new Float32Array(dimensions);
  const seed = hash("sha256", text, "hex");
  for (let at = 0; at < dimensions; at += 32) {
    const noise = Buffer.from(hash("sha256", `${at} ${seed}`, "hex"), "hex");
    for (let i = 0; i < 32 && at + i < dimensions; i++) vector[at + i] = ((noise[i] as number) - 127.5) / 127.5;
  }
  const length = Math.hypot(...vector);
  return vector.map((value) => value / length);
}
