/** Formats the detail of an audit entry, one line for each change. */

import { budgetText, utc } from "../common/format.js";

/** Numbers from here on are timestamps: no count is as high. */
const MOMENTS = 1e12;

/** With the year, because an expiry may be years ahead. */
const dated = (ms) => `${utc(ms).slice(0, "2027-12-31T00:00".length).replace("T", " ")} UTC`;

/** Formats a value; undefined: there is none. */
function words(value) {
  if (value === null || value === undefined) return undefined;
  if (Array.isArray(value)) return value.map((each) => words(each) ?? "none").join(", ") || "none";
  if (typeof value !== "object") return typeof value === "number" && value >= MOMENTS ? dated(value) : String(value);
  return value.nano === undefined ? JSON.stringify(value) : budgetText(value);
}

/** Flattens objects to entries by path, so that limits are compared one by one. */
function flat(value, path = []) {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return [[path.join(" "), words(value)]];
  return Object.entries(value).flatMap(([name, each]) => flat(each, [...path, name]));
}

/** Returns the changes of a reload; older versions recorded only their names. */
const reloadedLines = (changes) =>
  Array.isArray(changes)
    ? changes.flatMap((each) =>
        typeof each?.path === "string" ? [{ what: each.path, from: each.before, to: each.after, changed: true }] : [],
      )
    : [];

/**
 * Returns lines of `{ what, from, to }`: the value before, where it is known, and after; undefined where there is none. Unchanged
 * values have no line.
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
