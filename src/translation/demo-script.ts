/** The scripts of the demo provider's models, independent of protocols. */

import { hash } from "node:crypto";
import { type Fault, statusFault } from "../core/fault.ts";
import type { DemoAnswer, DemoFrame, DemoRequest } from "../core/protocol.ts";
import { asList, asObject, asText, type JsonObject, ownProperty } from "../wire/values.ts";

/** The demo models that respond; `error-` with a status from 400 to 599 fails with that status. */
export const DEMO_MODELS = ["echo", "tool", "reasoning", "image", "slow", "long", "error-stream", "cut"] as const;

/** The parts of a request that a script uses. */
interface ScriptInput<Tool> {
  /** The user's last text. */
  text: string;
  /** Tools that may be called, the requested one first. */
  tools: readonly Tool[];
  /** A tool's result, when it is the last part of the request. */
  result?: string | undefined;
  /** Maximum tokens of the response's text. */
  limit?: number | undefined;
  /** Stop sequences. */
  stop?: readonly string[] | undefined;
  /** Whether an image follows the text. */
  image?: boolean;
}

export interface DemoScript<Tool> {
  /** Reasoning before the response. */
  reasoning?: string;
  /** The response's text, in the pieces in which it is streamed. */
  pieces: readonly string[];
  /** The tool to call instead of a text. */
  call?: Tool;
  /** Milliseconds before the first piece and before each later one. */
  wait: { first: number; between: number };
  /** `length`: the text was truncated at the limit. `error`, `cut`: the response fails or ends in the middle. */
  end: "whole" | "length" | "error" | "cut";
  /** The stop sequence that ended it. */
  stopped?: string;
}

/** Returns the model's error, or undefined where it responds. `error-stream` can fail in mid-stream only in a stream. */
export function demoFault(model: string, streaming: boolean): Fault | undefined {
  const status = Number(/^error-([45]\d\d)$/.exec(model)?.[1] ?? (model === "error-stream" && !streaming ? 500 : 0));
  if (status > 0) return statusFault(status, `This is the ${status} that the demo model ${model} is for.`);
  if ((DEMO_MODELS as readonly string[]).includes(model)) return undefined;
  const names = [...DEMO_MODELS, "error-NNN"].join(", ");
  return {
    ...statusFault(404, `The demo provider has no model "${model}". It has: ${names}.`),
    code: "model_not_found",
    param: "model",
  };
}

/** Returns the script of a model that responds. */
export function demoScript<Tool>(model: string, input: ScriptInput<Tool>): DemoScript<Tool> {
  const slow = model === "slow";
  const script: DemoScript<Tool> = {
    pieces: [],
    wait: slow ? { first: 1500, between: 300 } : { first: 0, between: 0 },
    end: model === "error-stream" ? "error" : model === "cut" ? "cut" : "whole",
  };
  if (model === "reasoning") script.reasoning = "The user wrote something. I am made to repeat it, so I do.";
  const call = model === "tool" && input.result === undefined ? input.tools[0] : undefined;
  if (call !== undefined) return { ...script, call };
  return applyLimit(applyStop({ ...script, pieces: piecesOf(model, input) }, input.stop), input.limit);
}

function piecesOf(model: string, input: ScriptInput<unknown>): string[] {
  switch (model) {
    case "tool":
      return splitWords(
        input.result === undefined ? "No tool was offered that could be called." : `The tool answered: ${input.result}`,
      );
    case "image":
      if (input.image) return ["Here is ", "a picture."];
      return splitWords("Pictures come from the image paths: ask there for the model of this name.");
    case "slow":
      return ["Slow ", "and ", "steady: ", "three ", "seconds ", "long."];
    case "long":
      return Array.from({ length: 400 }, (_, i) => `word ${i + 1}${i === 399 ? "." : " "}`);
    case "error-stream":
    case "cut":
      return splitWords("This answer will not be finished, whatever it began with.");
    default:
      return splitWords(input.text === "" ? "There was no text to repeat." : input.text);
  }
}

/** Splits a text into pieces of whole words, about 200 at most for any length. */
function splitWords(text: string): string[] {
  const size = text.length / 200;
  const wordEnd = /\S(?=\s|$)/g;
  const pieces: string[] = [];
  // Searched only where a piece may end: a match for each word takes half a second for some millions.
  for (let start = 0; start < text.length; ) {
    wordEnd.lastIndex = start + Math.max(0, Math.ceil(size) - 1);
    const end = wordEnd.test(text) ? wordEnd.lastIndex : text.length;
    pieces.push(text.slice(start, end));
    start = end;
  }
  return pieces;
}

/** Maximum number of stop sequences, as each is searched in the whole text. Vendors accept four or five. */
const MAX_STOPS = 16;

function applyStop<Tool>(script: DemoScript<Tool>, stop: readonly string[] = []): DemoScript<Tool> {
  if (script.end !== "whole") return script;
  const text = script.pieces.join("");
  const matches = stop.slice(0, MAX_STOPS).filter((sequence) => sequence !== "" && text.includes(sequence));
  const [first] = matches.sort((a, b) => text.indexOf(a) - text.indexOf(b));
  return first === undefined
    ? script
    : { ...script, pieces: splitWords(text.slice(0, text.indexOf(first))), stopped: first };
}

function applyLimit<Tool>(script: DemoScript<Tool>, limit: number | undefined): DemoScript<Tool> {
  const text = script.pieces.join("");
  if (limit === undefined || script.end !== "whole" || demoTokens(text) <= limit) return script;
  const { stopped: _, ...rest } = script;
  return { ...rest, pieces: splitWords(text.slice(0, limit * 4).toWellFormed()), end: "length" };
}

/** Returns the token count reported for a text: one for each four characters. */
export const demoTokens = (text: string): number => Math.ceil(text.length / 4);

/** Returns a short id that is the same for the same request, streamed or not. */
export function demoId({ operation, model, body }: DemoRequest): string {
  const request = { ...asObject(body), stream: undefined, stream_options: undefined };
  return hash("sha256", `${operation.name} ${model} ${JSON.stringify(request)}`, "hex").slice(0, 24);
}

/** Breaks the connection, after a delay that lets earlier frames arrive. */
export const DEMO_CUT: DemoFrame = { after: 50, bytes: "", cut: true };

/** Returns an error response. */
export function demoErrorAnswer(fault: Fault, body: string): DemoAnswer {
  const retryHeaders = fault.kind.endsWith("_limit") || fault.kind === "overloaded" ? { "retry-after": "1" } : {};
  return {
    status: fault.status,
    headers: { "content-type": "application/json", ...retryHeaders },
    frames: [{ bytes: body }],
  };
}

/** Returns a response that is not streamed; a script with `cut` ends half-way. */
export function demoWhole(body: unknown, script?: Pick<DemoScript<unknown>, "pieces" | "wait" | "end">): DemoAnswer {
  const bytes = Buffer.from(JSON.stringify(body));
  const after = script ? script.wait.first + script.wait.between * Math.max(0, script.pieces.length - 1) : 0;
  const cut = script?.end === "cut";
  const frames: DemoFrame[] = [{ after, bytes: cut ? bytes.subarray(0, bytes.length >> 1) : bytes }];
  if (cut) frames.push(DEMO_CUT);
  return { status: 200, headers: { "content-type": "application/json" }, frames };
}

/** Returns a streamed response. */
export function demoStream(frames: readonly DemoFrame[], type = "text/event-stream; charset=utf-8"): DemoAnswer {
  return { status: 200, headers: { "content-type": type, "cache-control": "no-cache" }, frames };
}

/** Returns the pause before a script's nth piece, in milliseconds. */
export const demoPause = (script: DemoScript<unknown>, n: number): number =>
  n === 0 ? script.wait.first : script.wait.between;

/** Returns a value that roughly fits a JSON Schema: first choices, required members, small numbers. */
export const sampleOf = (schema: unknown): unknown => new Sampler(schema).sample(schema);

/** Maximum characters of a sample, roughly, and those that a value costs. */
const MAX_SAMPLE = 100_000;
const VALUE_COST = 20;

/** Makes a sample. A schema that refers to itself a few times at each level has more values than fit into memory. */
class Sampler {
  private left = MAX_SAMPLE;

  constructor(private readonly root: unknown) {}

  sample(schema: unknown, depth = 0): unknown {
    const rules = asObject(schema);
    this.left -= VALUE_COST;
    if (!rules || depth > 6 || this.left < 0) return {};
    const given = [...["const", "default", "example"].map((key) => rules[key]), asList(rules["enum"])[0]];
    const first = given.find((value) => value !== undefined);
    if (first !== undefined) {
      this.left -= JSON.stringify(first).length;
      return first;
    }
    const reference = asText(rules["$ref"]);
    if (reference !== undefined) {
      this.left -= reference.length;
      return this.sample(resolve(this.root, reference), depth + 1);
    }
    for (const key of ["anyOf", "oneOf", "allOf"]) {
      const choice = this.firstOf(rules[key], (each) => asObject(each)?.["type"] !== "null");
      if (choice !== undefined) return this.sample(choice, depth + 1);
    }
    return this.sampleOfType(rules, depth);
  }

  private sampleOfType(rules: JsonObject, depth: number): unknown {
    const typeName = this.firstOf(rules["type"], (type) => type !== "null") ?? rules["type"];
    // Some protocols write the types in uppercase.
    switch (asText(typeName)?.toLowerCase()) {
      case "string": {
        const text = sampleText(rules);
        this.left -= text.length;
        return text;
      }
      case "number":
      case "integer":
        return typeof rules["minimum"] === "number" ? rules["minimum"] : 1;
      case "boolean":
        return true;
      case "array":
        return Array.from({ length: Math.min(5, Math.max(1, Number(rules["minItems"] ?? 1))) }, () =>
          this.sample(rules["items"], depth + 1),
        );
      case "null":
        return null;
      default:
        return this.sampleOfObject(rules, depth);
    }
  }

  private sampleOfObject(rules: JsonObject, depth: number): unknown {
    const members = asObject(rules["properties"]) ?? {};
    const required = asList(rules["required"]);
    const sampled: [string, unknown][] = [];
    for (const each of required.length > 0 ? required : Object.keys(members)) {
      const name = String(each);
      this.left -= name.length;
      if (this.left < 0) break;
      sampled.push([name, this.sample(ownProperty(members, name), depth + 1)]);
    }
    return Object.fromEntries(sampled);
  }

  private firstOf(list: unknown, isWanted: (value: unknown) => boolean): unknown {
    const values = asList(list);
    const index = values.findIndex(isWanted);
    this.left -= index < 0 ? values.length : index;
    return values[index];
  }
}

const FORMATS: Readonly<Record<string, string>> = {
  date: "2026-01-31",
  "date-time": "2026-01-31T12:00:00Z",
  time: "12:00:00Z",
  email: "demo@example.com",
  uri: "https://example.com/",
  uuid: "00000000-0000-4000-8000-000000000000",
};

const sampleText = (rules: JsonObject): string =>
  ownProperty(FORMATS, asText(rules["format"]) ?? "") ??
  "demo".padEnd(Math.min(1000, Number(rules["minLength"] ?? 0)), "o");

/** Resolves a reference like `#/$defs/City`. */
function resolve(root: unknown, reference: string): unknown {
  let target = root;
  for (const segment of reference.replace(/^#\/?/, "").split("/"))
    if (segment !== "") target = asObject(target)?.[segment];
  return target;
}
