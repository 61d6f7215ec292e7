import type { ObjectReference } from "./reference-finder.ts";

/** A run of letters and digits in an id; names of methods and models have shorter ones, or the digits of a date. */
const RANDOM_RUN = /^(?=.*\d)(?!\d{8}$).{8,}$/;
const ID_SEPARATOR = /[^A-Za-z0-9]+/;
/** Around ids in a query parameter, which may be JSON; also of a name with slashes, whose last part is the id. */
const ID_LIST_SEPARATOR = /[\s,;/"'{}[\]]+/;

/** Reports whether a segment of an unknown path looks like an id. */
export const looksLikeId = (part: string): boolean => part.split(ID_SEPARATOR).some((run) => RANDOM_RUN.test(run));

/** Returns what may be ids in a query parameter of any name. */
export const possibleIds = (param: string, value: string): ObjectReference[] =>
  value.split(ID_LIST_SEPARATOR).flatMap((id) => (looksLikeId(id) ? { id, param, mayBeInvented: true as const } : []));
