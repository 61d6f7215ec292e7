import { asObject, asText, type Frame, type KeptAnswers, type Operation } from "model-gateway/protocol";

/** A kept response, or something below it. An id goes into a path: nothing but letters, digits, `_` and `-` may. */
const PATH = /^([\w-]{1,128})(?:\/(input_items|cancel))?$/;
/** What it is called, and the method, by the asked method and what stands behind the id. */
const NAMES: ReadonlyMap<string, readonly [name: string, method: Operation["method"]]> = new Map([
  ["GET", ["retrieve", "GET"]],
  ["DELETE", ["delete", "DELETE"]],
  ["GET input_items", ["input_items", "GET"]],
  ["POST cancel", ["cancel", "POST"]],
]);
/** The id stands first in a whole response. [F] */
const FIRST = /^\s*\{\s*"id"\s*:\s*"([\w-]{1,128})"/;

/** Responses that the vendor keeps for 30 days unless `store` is false. */
export const kept: KeptAnswers = {
  continues: "previous_response_id",
  keep: "store",

  locate(asked, rest) {
    const [, id, below] = PATH.exec(rest) ?? [];
    const [name, method] = NAMES.get(below === undefined ? asked : `${asked} ${below}`) ?? [];
    if (id === undefined || name === undefined || method === undefined) return undefined;
    return {
      name,
      method,
      body: "none",
      streams: "asked",
      framing: "sse",
      generates: false,
      kept: id,
      upstream: () => `/responses/${rest}`,
    };
  },

  id(first: Frame) {
    if (first.kind !== "event") return FIRST.exec(first.bytes.toString("latin1", 0, 200))?.[1];
    return asText(asObject(asObject(first.json())?.["response"])?.["id"]);
  },
};
