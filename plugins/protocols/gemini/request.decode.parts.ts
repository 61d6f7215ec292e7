import { defined, type Opaque, type Part, type ToolCall } from "model-gateway/protocol";
import type { Calls } from "./request.calls.ts";
import { readMedia, refuseTwo } from "./request.decode.media.ts";
import { readResult } from "./request.decode.results.ts";
import { type Members, snake, wrong } from "./request.members.ts";
import { BYPASS, NAME, type NativePart, type Reading, remembered, say, sayLeft } from "./request.native.ts";

/** Strings that the documents offer in place of a signature, as text and in base64; they mean none. [D] */
const NO_SIGNATURE: ReadonlySet<string> = new Set(
  [BYPASS, "context_engineering_is_the_way_to_go"].flatMap((text) => [text, Buffer.from(text).toString("base64")]),
);

/** What a part can be, for the vocabulary. */
const KINDS = ["functionCall", "functionResponse", "inlineData", "fileData", "text"] as const;

/** Members that say something about a part, whatever it is. */
const BESIDES: ReadonlySet<string> = new Set(
  ["thought", "thoughtSignature", "videoMetadata", "mediaResolution", "mediaProcessing", "partMetadata"].flatMap(
    (name) => [name, snake(name)],
  ),
);

/** Reads one part; opaque state of another vendor that sits on it becomes a part of its own before it. */
export function readPart(part: Members, calls: Calls, reading: Reading): Part[] {
  refuseTwo(part, reading);
  const kind = KINDS.find((name) => part.has(name));
  const other = kind === undefined ? part.left().find((name) => !BESIDES.has(name)) : undefined;
  if (other !== undefined) return [foreign(part, other, reading)];
  const thought = part.flag("thought") === true;
  if (thought && (kind === "inlineData" || kind === "fileData")) return [foreign(part, "thought", reading)];
  const opaque = readSignature(part, reading);
  if (thought && (kind === "text" || kind === undefined)) return [readThought(part, opaque, reading)];
  part.keep("thought");
  const own = opaque && (opaque.protocol === NAME || opaque.on !== undefined) ? settled(opaque) : undefined;
  const before = opaque && !own ? carried(part, opaque, reading) : [];
  return [...before, readKind(kind ?? "text", part, own, calls, reading)];
}

function readSignature(part: Members, { asked }: Reading): Opaque | undefined {
  const text = part.text("thoughtSignature");
  if (text !== undefined && text !== "" && !NO_SIGNATURE.has(text)) return asked.open(text, "thoughtSignature");
  part.keep("thoughtSignature");
  return undefined;
}

/** State that is where it belongs. */
const settled = ({ on: _, ...opaque }: Opaque): Opaque => opaque;

/** State of another protocol, for which a part of this one was the only place. */
function carried(part: Members, opaque: Opaque, { opened }: Reading): Part[] {
  if (opened.has(opaque.data)) return [];
  opened.add(opaque.data);
  return [{ kind: "reasoning", at: part.path("thoughtSignature"), text: "", opaque }];
}

function readThought(part: Members, opaque: Opaque | undefined, reading: Reading): Part {
  say(reading, "reasoning_text", part.at);
  if (opaque) reading.opened.add(opaque.data);
  const text = part.text("text");
  sayLeft(part, reading);
  const native = remembered(reading, (): NativePart => ({ form: part.form() }));
  return { kind: "reasoning", at: part.at, ...defined({ text, opaque }), ...native };
}

function readKind(
  kind: (typeof KINDS)[number],
  part: Members,
  opaque: Opaque | undefined,
  calls: Calls,
  reading: Reading,
): Part {
  switch (kind) {
    case "functionCall":
      return readCall(part, opaque, calls, reading);
    case "functionResponse":
      return readResult(part, calls, reading);
    case "text":
      return readText(part, opaque, reading);
    default:
      return readMedia(part, reading);
  }
}

/** A text; one without any text only bears a signature. */
function readText(part: Members, opaque: Opaque | undefined, reading: Reading): Part {
  const text = part.text("text") ?? "";
  sayLeft(part, reading);
  const native = remembered(reading, (): NativePart => ({ form: part.form() }));
  return { kind: "text", at: part.at, text, ...defined({ opaque }), ...native };
}

function readCall(part: Members, opaque: Opaque | undefined, calls: Calls, reading: Reading): ToolCall {
  const call = part.object("functionCall") as Members;
  const name = call.text("name") ?? wrong(call.path("name"), "is missing");
  const told = call.text("id") || undefined;
  const id = calls.call(name, told);
  if (id !== told) call.keep("id");
  const args = call.raw("args")?.text ?? "";
  sayLeft(part, reading);
  sayLeft(call, reading);
  const native = remembered(reading, (): NativePart => ({ form: part.form(), inner: call.form() }));
  return { kind: "tool_call", at: part.at, id, name, arguments: args, ...defined({ opaque }), ...native };
}

/** A part that only this protocol understands, like code that the vendor ran. */
function foreign(part: Members, name: string, reading: Reading): Part {
  say(reading, "foreign_block", part.at);
  return { kind: "foreign", at: part.at, protocol: NAME, name, json: part.source };
}
