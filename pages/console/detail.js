/** What an entry of the audit trail says of a change, a line for each thing. */

import { dollars, utc } from "../common/format.js";

const NANO = 1e9;
/** Numbers from here on are moments: none of what is counted comes near. */
const MOMENTS = 1e12;

/** An end may be years ahead. */
const dated = (ms) => `${utc(ms).slice(0, "2027-12-31T00:00".length).replace("T", " ")} UTC`;

/** A value as people read it; undefined: there is none. */
function words(value) {
  if (value === null || value === undefined) return undefined;
  if (Array.isArray(value)) return value.map((each) => words(each) ?? "none").join(", ") || "none";
  if (typeof value !== "object") return typeof value === "number" && value >= MOMENTS ? dated(value) : String(value);
  const { nano, per, soft } = value;
  if (nano === undefined) return JSON.stringify(value);
  return `${dollars(nano / NANO)} ${per === "total" ? "in all" : `a ${per}`}${soft ? ", only told" : ""}`;
}

/** Members of objects stand by their path: what the limits are, one by one. */
function flat(value, path = []) {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return [[path.join(" "), words(value)]];
  return Object.entries(value).flatMap(([name, each]) => flat(each, [...path, name]));
}

/** What a reload has changed; gateways before this one kept the names alone. */
const reloadedLines = (changes) =>
  Array.isArray(changes)
    ? changes.flatMap((each) =>
        typeof each?.path === "string" ? [{ what: each.path, from: each.before, to: each.after, changed: true }] : [],
      )
    : [];

/**
 * Lines of `{ what, from, to }`: what was there before, where that is known, and what is there now; either is undefined where there
 * is nothing. What has stayed as it was has no line.
 */
export function linesOf({ was, ...detail }) {
  const reloaded = reloadedLines(detail.changes);
  if (reloaded.length > 0)
    return [...linesOf({ ...detail, changes: undefined }).filter(({ to }) => to !== undefined), ...reloaded];
  const now = new Map(flat(detail));
  if (was === null || typeof was !== "object") return [...now].map(([what, to]) => ({ what, to }));
  const before = new Map(flat(was));
  const names = [...new Set([...before.keys(), ...now.keys()])];
  return names
    .map((what) => ({ what, from: before.get(what), to: now.get(what), changed: true }))
    .filter(({ from, to }) => from !== to);
}
