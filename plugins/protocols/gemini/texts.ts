/** The positions of human text and of opaque state in parsed requests and responses. */
import {
  asCount,
  asList,
  asObject,
  type EncodeContext,
  type JsonObject,
  type JsonPath,
  type OpaqueConsequence,
  type OpaquePlace,
  type OpaquePlaces,
  type Protocol,
  stringsIn,
  type TextKind,
  type TextPlace,
} from "model-gateway/protocol";
import {
  BYPASS_SIGNATURE,
  bothSpellings,
  CALL_BYPASSED,
  NON_TEXT_MEMBERS,
  requiresSignatures,
  SINCE_GEMINI_3,
  spellingIn,
} from "./wire.ts";

/** An object and its path. */
interface ObjectPlace {
  path: JsonPath;
  object: JsonObject;
}

/** A turn of a request, or its instruction. */
interface TurnPlace extends ObjectPlace {
  role: "system" | "user" | "assistant";
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

/** Positions of human text in requests to generate, count or embed, in complete responses and in frames. */
export const texts: NonNullable<Protocol["texts"]> = {
  *request(body) {
    for (const { path, object } of requestsIn(body)) {
      const instruction = memberIn({ path, object }, "systemInstruction");
      if (typeof instruction.value === "string") yield { path: instruction.path, kind: "system" };
      for (const content of contentsIn({ path, object }))
        for (const part of partsIn(content)) yield* partTexts(part, content.role);
    }
  },
  *response(json) {
    for (const response of objectsIn([], json)) {
      let position = 0;
      for (const candidate of objectsInMember(response, "candidates")) {
        const index = asCount(candidate.object["index"]) ?? position;
        position++;
        yield* candidateTexts(candidate, String(index));
      }
    }
  },
  names: {
    containers: bothSpellings([
      "generateContentRequest",
      "requests",
      "systemInstruction",
      "contents",
      "content",
      "parts",
      ...TEXT_MEMBERS.map(([holder]) => holder),
    ]),
    members: bothSpellings(["role", "text", "thought", ...TEXT_MEMBERS.map(([, member]) => member)]),
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
      for (const { path, object } of objectsInMember(support, "segment"))
        if (typeof object["text"] === "string") yield { path: [...path, "text"], kind: "assistant" };
}

/** Yields the texts of a part. @param index of the candidate, if the part is in a response */
function* partTexts(part: ObjectPlace, role: TurnPlace["role"], index?: string): Iterable<TextPlace> {
  const { path, object } = part;
  if (typeof object["text"] === "string") {
    const thought = object["thought"] === true;
    const kind = thought ? "reasoning" : role;
    const piece = index === undefined ? {} : { piece: `${index}.${thought ? "thought" : "text"}` };
    yield { path: [...path, "text"], kind, ...piece };
  }
  for (const [container, name, kind] of TEXT_MEMBERS)
    for (const object of objectsInMember(part, container)) {
      const member = memberIn(object, name);
      for (const { path } of stringsIn(member.value, member.path)) yield { path, kind };
    }
  for (const call of objectsInMember(part, "functionCall"))
    for (const { path, object } of objectsInMember(call, "partialArgs"))
      if (typeof object["stringValue"] === "string")
        yield { path: [...path, "stringValue"], kind: "tool_call", piece: `${index ?? ""}.call.${object["jsonPath"]}` };
}

/** Positions of signatures, and what else must be removed with those that the provider cannot read. */
export const opaque: OpaquePlaces = {
  *find(body) {
    for (const request of requestsIn(body))
      for (const content of contentsIn(request)) for (const part of partsIn(content)) yield* signaturePlaces(part);
  },
  *consequences(body, removedPaths, target) {
    const removed = new Set(removedPaths.map((path) => JSON.stringify(path)));
    for (const request of requestsIn(body)) {
      const turns: RemainingTurn[] = [];
      let removal: ThoughtRemoval = "none";
      // Backwards, because a thought is removed with its signature, which may be on a later part or in the next content.
      for (const content of [...contentsIn(request)].reverse()) {
        const parts = [...partsIn(content)];
        const isAnswer = content.role === "assistant";
        const { remaining, thoughtPieces, before } = removeParts(parts, removed, isAnswer ? removal : "none");
        removal = isAnswer ? before : "none";
        if (remaining) for (const { path } of thoughtPieces) yield { path };
        else yield { path: content.path };
        if (remaining && content.role !== "system") turns.unshift({ role: content.role, parts: remaining });
      }
      if (requiresSignatures(target)) yield* bypassSignatures(turns, removed);
    }
  },
  lost: {
    mayBeIn(body, target) {
      const contents = body.member("contents");
      if (!contents || !isKnownToRequireSignatures(target)) return false;
      const bytes = body.slice(contents.start, contents.end);
      // A client that keeps some signatures keeps all: its requests need not be parsed.
      if (bytes.includes("thoughtSignature") || bytes.includes("thought_signature")) return false;
      return bytes.includes("functionCall") || bytes.includes("function_call");
    },
    *repairs(body, target) {
      if (!isKnownToRequireSignatures(target)) return;
      const turns = [...contentsIn({ path: [], object: body })].flatMap((content) =>
        content.role === "system" ? [] : [{ role: content.role, parts: [...partsIn(content)] }],
      );
      yield* bypassSignatures(turns, new Set());
    },
  },
};

/** Reports whether a model is certain to require signatures; one of unknown name is left to its provider. */
const isKnownToRequireSignatures = (target: Pick<EncodeContext, "model" | "facts">): boolean =>
  target.facts.thinking === "level" || (requiresSignatures(target) && SINCE_GEMINI_3.test(target.model));

/** A turn with the parts that remain. */
interface RemainingTurn {
  role: "user" | "assistant";
  parts: ObjectPlace[];
}

const isText = ({ object }: ObjectPlace): boolean =>
  !NON_TEXT_MEMBERS.some((name) => (object[spellingIn(object, name)] ?? null) !== null);

/**
 * Yields the signature of a part. A thought or an empty text is removed with its signature; other parts lose only the member.
 */
function* signaturePlaces(part: ObjectPlace): Iterable<OpaquePlace> {
  const { path, value } = memberIn(part, "thoughtSignature");
  if (typeof value !== "string") return;
  const removesPart = isThought(part) || (isText(part) && (part.object["text"] ?? "") === "");
  yield { path, span: removesPart ? part.path : path };
}

const isThought = (part: ObjectPlace): boolean => part.object["thought"] === true && isText(part);

/** Whether a thought is removed: after its signature on a call or an end, before which texts may be, or its next piece. */
type ThoughtRemoval = "none" | "signature" | "pieces";

/**
 * Removes parts of a turn.
 * @param after what was removed after these parts
 * @returns the remaining parts, undefined if none remain; the pieces of thoughts whose signature is removed; and what is removed
 * of a thought that began before these parts
 */
function removeParts(parts: readonly ObjectPlace[], removed: ReadonlySet<string>, after: ThoughtRemoval) {
  const remaining: ObjectPlace[] = [];
  const thoughtPieces: ObjectPlace[] = [];
  let removal = after;
  for (const part of parts.toReversed()) {
    const { path, value } = memberIn(part, "thoughtSignature");
    const unsigned = value === undefined;
    if (removed.has(JSON.stringify(part.path))) removal = isThought(part) ? "pieces" : "signature";
    else if (removal !== "none" && isThought(part) && unsigned) {
      removal = "pieces";
      thoughtPieces.push(part);
    } else {
      // The part after a thought may carry its signature; texts may be before a call that does.
      if (removed.has(JSON.stringify(path))) removal = isText(part) ? "pieces" : "signature";
      else if (removal === "pieces" || !unsigned || !isText(part)) removal = "none";
      remaining.push(part);
    }
  }
  return {
    remaining: parts.length > 0 && remaining.length === 0 ? undefined : remaining.reverse(),
    thoughtPieces,
    before: removal,
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
  let why: string | undefined = CALL_BYPASSED;
  for (const { role, parts } of steps.slice(lastUserTurn + 1)) {
    const call = role === "assistant" ? parts.find((part) => hasMember(part, "functionCall")) : undefined;
    if (!call) continue;
    const { path, value } = memberIn(call, "thoughtSignature");
    if (typeof value === "string" && value !== "" && !removed.has(JSON.stringify(path))) continue;
    yield { path, json: JSON.stringify(BYPASS_SIGNATURE), ...(why === undefined ? {} : { why }) };
    why = undefined;
  }
}

const hasMember = ({ object }: ObjectPlace, name: string): boolean =>
  asObject(object[spellingIn(object, name)]) !== undefined;

/** Yields the requests in a body: itself, one whose tokens are counted, several to be embedded. */
function* requestsIn(body: unknown): Iterable<ObjectPlace> {
  const object = asObject(body);
  if (!object) return;
  yield { path: [], object };
  yield* objectsInMember({ path: [], object }, "generateContentRequest");
  yield* objectsInMember({ path: [], object }, "requests");
}

/** Yields the instruction and the turns of a request, in no particular order. */
function* contentsIn(request: ObjectPlace): Iterable<TurnPlace> {
  for (const content of objectsInMember(request, "systemInstruction")) yield { ...content, role: "system" };
  for (const name of ["contents", "content"])
    for (const content of objectsInMember(request, name))
      yield { ...content, role: content.object["role"] === "model" ? "assistant" : "user" };
}

const partsIn = (content: ObjectPlace): Iterable<ObjectPlace> => objectsInMember(content, "parts");

/** Returns a member in either spelling. */
function memberIn({ path, object }: ObjectPlace, name: string): { path: JsonPath; value: unknown } {
  const spelling = spellingIn(object, name);
  return { path: [...path, spelling], value: object[spelling] };
}

/** Yields the objects in a member: proto JSON accepts a single object for a list. */
function* objectsInMember(place: ObjectPlace, name: string): Iterable<ObjectPlace> {
  const { path, value } = memberIn(place, name);
  yield* objectsIn(path, value);
}

function* objectsIn(path: JsonPath, value: unknown): Iterable<ObjectPlace> {
  const single = asObject(value);
  if (single) yield { path, object: single };
  let n = 0;
  for (const element of asList(value)) {
    const object = asObject(element);
    if (object) yield { path: [...path, n], object };
    n++;
  }
}
