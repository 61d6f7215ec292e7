/** The limits of a key or a group. */

import { count } from "../common/format.js";
import { html } from "../common/ui.js";

/** Field, label, and example of each. */
export const LIMITS = [
  ["rpm", "Requests a minute", "300"],
  ["tpm", "Tokens a minute", "1M"],
  ["concurrency", "At a time", "20"],
  ["budget", "Budget", "$50/month, $5/day"],
];

/** Examples for gateway.yaml. */
export const USUAL_LIMITS = { rpm: 300, tpm: "1M", concurrency: 20, budget: ["$50/month", "$5/day"] };

export const wordsOf = (value) => (Array.isArray(value) ? value.join(", ") : value === undefined ? "" : String(value));

/** The limits that are set, one per line. */
export function Limits({ of }) {
  const set = LIMITS.filter(([name]) => of[name] !== undefined);
  const written = (value) => (typeof value === "number" ? count(value) : wordsOf(value));
  return set.length === 0 ? "–" : set.map(([name]) => html`<div>${name} ${written(of[name])}</div>`);
}
