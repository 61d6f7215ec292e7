/** The positions of human text and of opaque state in parsed requests and responses. */
import {
  asCount,
  asList,
  asObject,
  type JsonObject,
  type JsonPath,
  type OpaqueConsequence,
  type OpaquePlace,
  type OpaquePlaces,
  type Protocol,
  type TextKind,
  type TextPlace,
} from "model-gateway/protocol";
import { BYPASS_SIGNATURE, spellingIn } from "./wire.ts";

/** An object and its path. */
interface ObjectPlace {
  at: JsonPath;
  of: JsonObject;
}

/** A turn of a request, or its instruction. */
interface TurnPlace extends ObjectPlace {
  role: "system" | "user" | "assistant";
}

/** Positions of human text in requests to generate, count or embed, in complete responses and in frames. */
export const texts: NonNullable<Protocol["texts"]> = {
  *request(body) {
    for (const { at, of } of requestsIn(body)) {
      const instruction = memberIn({ at, of }, "systemInstruction");
      if (typeof instruction.value === "string") yield { path: instruction.at, kind: "system" };
      for (const content of contentsIn({ at, of }))
        for (const part of partsIn(content)) yield* partTexts(part, content.role);
    }
  },
  *response(json) {
    for (const response of objectsIn([], json)) {
      let position = 0;
      for (const candidate of objectsInMember(response, "candidates")) {
        const index = asCount(candidate.of["index"]) ?? position;
        position++;
        yield* candidateTexts(candidate, String(index));
      }
    }
  },
};

/**
 * Yields the texts of a candidate. Texts and thoughts continue in the next frame; segments of sources repeat parts of the
 * text.
 */
function* candidateTexts(candidate: ObjectPlace, index: string): Iterable<TextPlace> {
  for (const content of objectsInMember(candidate, "content"))
    for (const part of partsIn(content)) yield* partTexts(part, "assistant", index);
  for (const metadata of objectsInMember(candidate, "groundingMetadata"))
    for (const support of objectsInMember(metadata, "groundingSupports"))
      for (const { at, of } of objectsInMember(support, "segment"))
        if (typeof of["text"] === "string") yield { path: [...at, "text"], kind: "assistant" };
}

/** Objects in a part, and their members whose strings are human text. */
const TEXT_MEMBERS: readonly (readonly [holder: string, member: string, kind: TextKind])[] = [
  ["functionCall", "args", "tool_call"],
  ["toolCall", "args", "tool_call"],
  ["executableCode", "code", "tool_call"],
  ["functionResponse", "response", "tool_result"],
  ["toolResponse", "response", "tool_result"],
  ["codeExecutionResult", "output", "tool_result"],
];

/** Yields the texts of a part. @param index of the candidate, if the part is in a response */
function* partTexts(part: ObjectPlace, role: TurnPlace["role"], index?: string): Iterable<TextPlace> {
  const { at, of } = part;
  if (typeof of["text"] === "string") {
    const thought = of["thought"] === true;
    const kind = thought ? "reasoning" : role;
    const piece = index === undefined ? {} : { piece: `${index}.${thought ? "thought" : "text"}` };
    yield { path: [...at, "text"], kind, ...piece };
  }
  for (const [holder, name, kind] of TEXT_MEMBERS)
    for (const object of objectsInMember(part, holder)) {
      const { at, value } = memberIn(object, name);
      for (const path of stringPaths(at, value)) yield { path, kind };
    }
  for (const call of objectsInMember(part, "functionCall"))
    for (const { at, of } of objectsInMember(call, "partialArgs"))
      if (typeof of["stringValue"] === "string")
        yield { path: [...at, "stringValue"], kind: "tool_call", piece: `${index ?? ""}.call.${of["jsonPath"]}` };
}

/** The maximum depth, as in the JSON parser: paths of deeper JSON would take memory quadratic in the depth. */
const MAX_DEPTH = 512;

/** Yields the paths of all strings in a value, in document order. */
function* stringPaths(at: JsonPath, value: unknown): Iterable<JsonPath> {
  const pending: { at: JsonPath; value: unknown }[] = [{ at, value }];
  for (let next = pending.pop(); next; next = pending.pop()) {
    const { at, value } = next;
    if (typeof value === "string") yield at;
    else if (at.length >= MAX_DEPTH) continue;
    else if (Array.isArray(value))
      for (let n = value.length - 1; n >= 0; n--) pending.push({ at: [...at, n], value: value[n] });
    else if (typeof value === "object" && value !== null)
      for (const [name, member] of Object.entries(value).reverse()) pending.push({ at: [...at, name], value: member });
  }
}

/** Positions of signatures, and what else must be removed with those that the provider cannot read. */
export const opaque: OpaquePlaces = {
  *find(body) {
    for (const request of requestsIn(body))
      for (const content of contentsIn(request)) for (const part of partsIn(content)) yield* signaturePlaces(part);
  },
  *consequences(body, removedPaths, facts) {
    const removed = new Set(removedPaths.map((path) => JSON.stringify(path)));
    for (const request of requestsIn(body)) {
      const turns: RemainingTurn[] = [];
      let signatureRemoved = false;
      // Backwards, because a thought is removed with its signature, which may be on a later part or in the next content.
      for (const content of [...contentsIn(request)].reverse()) {
        const parts = [...partsIn(content)];
        const { remaining, thoughtPieces, startsRemoved } = removeParts(
          parts,
          removed,
          signatureRemoved && content.role === "assistant",
        );
        signatureRemoved = startsRemoved;
        if (remaining) for (const { at } of thoughtPieces) yield { path: at };
        else yield { path: content.at };
        if (remaining && content.role !== "system") turns.unshift({ role: content.role, parts: remaining });
      }
      if (facts.thinking !== "budget" && facts.thinking !== "none") yield* bypassSignatures(turns, removed);
    }
  },
};

/** A turn with the parts that remain. */
interface RemainingTurn {
  role: "user" | "assistant";
  parts: ObjectPlace[];
}

/** Members of a part that make it more than a text. */
const NON_TEXT_MEMBERS = [
  "functionCall",
  "functionResponse",
  "inlineData",
  "fileData",
  "executableCode",
  "codeExecutionResult",
  "toolCall",
  "toolResponse",
];

const isText = ({ of }: ObjectPlace): boolean =>
  !NON_TEXT_MEMBERS.some((name) => (of[spellingIn(of, name)] ?? null) !== null);

/**
 * Yields the signature of a part. A thought or an empty text is removed with its signature; other parts lose only the member.
 */
function* signaturePlaces(part: ObjectPlace): Iterable<OpaquePlace> {
  const { at, value } = memberIn(part, "thoughtSignature");
  if (typeof value !== "string") return;
  const removesPart = isThought(part) || (isText(part) && (part.of["text"] ?? "") === "");
  yield { path: at, span: removesPart ? part.at : at };
}

const isThought = (part: ObjectPlace): boolean => part.of["thought"] === true && isText(part);

/**
 * Removes parts of a turn.
 * @param signatureRemoved whether a signature after these parts is removed that belongs to a thought
 * @returns the remaining parts, undefined if none remain; the pieces of thoughts whose signature is removed; and whether the
 * first part is such a thought or signature
 */
function removeParts(parts: readonly ObjectPlace[], removed: ReadonlySet<string>, signatureRemoved: boolean) {
  const remaining: ObjectPlace[] = [];
  const thoughtPieces: ObjectPlace[] = [];
  let removesThought = signatureRemoved;
  for (const part of parts.toReversed()) {
    const thought = isThought(part);
    if (removed.has(JSON.stringify(part.at))) removesThought = thought;
    else if (removesThought && thought && memberIn(part, "thoughtSignature").value === undefined)
      thoughtPieces.push(part);
    else {
      // The part after a thought may carry the thought's signature.
      removesThought = removed.has(JSON.stringify(memberIn(part, "thoughtSignature").at));
      remaining.push(part);
    }
  }
  return {
    remaining: parts.length > 0 && remaining.length === 0 ? undefined : remaining.reverse(),
    thoughtPieces,
    startsRemoved: removesThought,
  };
}

/**
 * Adds the vendor's bypass to the first call of each step after the last user turn that has no signature: the vendor refuses
 * the request without one. [D: thought signatures] A turn with tool results is no user turn here.
 */
function* bypassSignatures(turns: readonly RemainingTurn[], removed: ReadonlySet<string>): Iterable<OpaqueConsequence> {
  const steps: RemainingTurn[] = [];
  for (const { role, parts } of turns) {
    const last = steps.at(-1);
    if (last?.role !== role) steps.push({ role, parts: [...parts] });
    else for (const part of parts) last.parts.push(part);
  }
  const lastUserTurn = steps.findLastIndex(
    ({ role, parts }) => role === "user" && !parts.some((part) => hasMember(part, "functionResponse")),
  );
  let why: string | undefined = "the call has no thought signature of the model; it is sent with the vendor's bypass";
  for (const { role, parts } of steps.slice(lastUserTurn + 1)) {
    const call = role === "assistant" ? parts.find((part) => hasMember(part, "functionCall")) : undefined;
    if (!call) continue;
    const { at, value } = memberIn(call, "thoughtSignature");
    if (typeof value === "string" && value !== "" && !removed.has(JSON.stringify(at))) continue;
    yield { path: at, json: JSON.stringify(BYPASS_SIGNATURE), ...(why === undefined ? {} : { why }) };
    why = undefined;
  }
}

const hasMember = ({ of }: ObjectPlace, name: string): boolean => asObject(of[spellingIn(of, name)]) !== undefined;

/** Yields the requests in a body: itself, one whose tokens are counted, several to be embedded. */
function* requestsIn(body: unknown): Iterable<ObjectPlace> {
  const of = asObject(body);
  if (!of) return;
  yield { at: [], of };
  yield* objectsInMember({ at: [], of }, "generateContentRequest");
  yield* objectsInMember({ at: [], of }, "requests");
}

/** Yields the instruction and the turns of a request, in no particular order. */
function* contentsIn(request: ObjectPlace): Iterable<TurnPlace> {
  for (const content of objectsInMember(request, "systemInstruction")) yield { ...content, role: "system" };
  for (const name of ["contents", "content"])
    for (const content of objectsInMember(request, name))
      yield { ...content, role: content.of["role"] === "model" ? "assistant" : "user" };
}

const partsIn = (content: ObjectPlace): Iterable<ObjectPlace> => objectsInMember(content, "parts");

/** Returns a member in either spelling. */
function memberIn({ at, of }: ObjectPlace, name: string): { at: JsonPath; value: unknown } {
  const spelling = spellingIn(of, name);
  return { at: [...at, spelling], value: of[spelling] };
}

/** Yields the objects in a member: proto JSON accepts a single object for a list. */
function* objectsInMember(place: ObjectPlace, name: string): Iterable<ObjectPlace> {
  const { at, value } = memberIn(place, name);
  yield* objectsIn(at, value);
}

function* objectsIn(at: JsonPath, value: unknown): Iterable<ObjectPlace> {
  const single = asObject(value);
  if (single) yield { at, of: single };
  let n = 0;
  for (const element of asList(value)) {
    const of = asObject(element);
    if (of) yield { at: [...at, n], of };
    n++;
  }
}
