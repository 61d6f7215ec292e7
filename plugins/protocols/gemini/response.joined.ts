import { asList, asObject, type JsonObject } from "model-gateway/protocol";
import { joinedLogprobs } from "./response.logprobs.ts";

/** What decides whether a part goes on the one before. */
export interface Shape {
  kind: "text" | "thought" | "other";
  signed: boolean;
  empty: boolean;
}

/**
 * True when clients that join neighbouring texts join these. A text with a signature begins a part, and goes on without
 * one, as in the vendor's streams [F]; a thought's signature ends its part.
 */
export function joins(last: Shape | undefined, next: Shape): boolean {
  if (!last || last.kind !== next.kind || last.kind === "other") return false;
  if (last.kind === "text") return !next.signed;
  return !last.signed && (!next.signed || next.empty);
}

function shapeOf(part: JsonObject): Shape {
  const kind = typeof part["text"] !== "string" ? "other" : part["thought"] === true ? "thought" : "text";
  return { kind, signed: part["thoughtSignature"] !== undefined, empty: part["text"] === "" };
}

/** Parts with neighbouring texts of one kind as one part; texts that say nothing are left out where there is more. */
function joinedParts(parts: readonly JsonObject[]): JsonObject[] {
  const whole: JsonObject[] = [];
  for (const part of parts) {
    const last = whole.at(-1);
    const shape = shapeOf(part);
    if (last && joins(shapeOf(last), shape))
      whole[whole.length - 1] = { ...last, ...part, text: `${last["text"]}${part["text"]}` };
    else if (whole.length === 0 || shape.kind === "other" || !shape.empty || shape.signed) whole.push(part);
  }
  return whole.length > 1 && isNothing(whole[0]) ? whole.slice(1) : whole;
}

function isNothing(part: JsonObject | undefined): boolean {
  const { kind, signed, empty } = shapeOf(part ?? {});
  return kind !== "other" && !signed && empty;
}

/** A candidate of the last frame with the parts of all frames. */
export function joinedCandidate(candidate: JsonObject, frames: readonly JsonObject[]): JsonObject {
  const same = frames.flatMap((frame) => asList(frame["candidates"]).map((each) => asObject(each) ?? {}));
  const mine = same.filter((each) => each["index"] === candidate["index"]);
  const contents = mine.map((each) => asObject(each["content"])).filter((content) => content !== undefined);
  const parts = joinedParts(
    contents.flatMap((content) => asList(content["parts"]).map((part) => asObject(part) ?? {})),
  );
  const logprobs = joinedLogprobs(mine.map((each) => each["logprobsResult"]));
  return {
    ...candidate,
    ...(contents.length === 0 ? {} : { content: { parts, role: "model" } }),
    ...(logprobs ? { logprobsResult: logprobs } : {}),
  };
}
