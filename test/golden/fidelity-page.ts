/** The tables of docs/fidelity.md, from what the two matrices found. */
import { readFileSync, writeFileSync } from "node:fs";

import { PROTOCOLS, type ProtocolName } from "../support/vendor-sdks.ts";
import type { Origin, Verdict } from "./matrix.ts";
import { excuse, REFUSED } from "./refused.ts";
import type { Tally } from "./request-matrix.ts";

/** The verdicts on answers that the vendor's own SDK takes: of the others nobody can tell what they say. */
export const sound = (verdicts: readonly Verdict[], found: readonly Origin[]): Verdict[] => {
  const broken = new Set(found.filter((origin) => origin.broken).map(({ recording }) => recording.id));
  return verdicts.filter(({ recording }) => !broken.has(recording));
};

/** Those that no listed reason explains. */
export const unexplained = (verdicts: readonly Verdict[]): Verdict[] =>
  verdicts.filter((verdict) => verdict.fault && !excuse(verdict));

/** Listed reasons that explain nothing. */
export const idle = (verdicts: readonly Verdict[]): string[] =>
  REFUSED.filter(({ reason }) => !verdicts.some((each) => each.fault && excuse(each) === reason)).map(
    ({ reason }) => reason,
  );

const ratio = (verdicts: readonly Verdict[]): string =>
  `${verdicts.filter(({ fault }) => !fault).length} of ${verdicts.length}`;

function cell(verdicts: readonly Verdict[], source: ProtocolName, client: ProtocolName): string {
  if (source === client) return "the very bytes";
  const between = verdicts.filter((each) => each.source === source && each.client === client);
  const whole = between.filter(({ stream }) => !stream);
  const streamed = between.filter(({ stream }) => stream);
  return `${ratio(whole)} whole, ${ratio(streamed)} streamed`;
}

/** How many recorded answers of each protocol said the same to clients of each other one, as a table. */
export function matrixTable(verdicts: readonly Verdict[]): string {
  const rows = PROTOCOLS.map(
    (source) => `| ${source} | ${PROTOCOLS.map((client) => cell(verdicts, source, client)).join(" | ")} |`,
  );
  return [
    `| answers of | ${PROTOCOLS.map((client) => `to ${client}`).join(" | ")} |`,
    "| --- | --- | --- | --- | --- |",
    ...rows,
  ].join("\n");
}

/** The recordings that did not, each with its reason. */
export function refusedList(verdicts: readonly Verdict[], found: readonly Origin[]): string {
  const listed = REFUSED.map(({ reason, recordings }) => {
    const ids = new Set(
      verdicts.filter(({ recording, fault }) => fault && recordings.test(recording)).map(({ recording }) => recording),
    );
    return `- ${ids.size} × ${reason}`;
  });
  const broken = found.filter((origin) => origin.broken);
  return [
    ...listed,
    `- ${broken.length} × not in the table: the vendor's own SDK refuses the answer too (${reasons(broken)})`,
  ].join("\n");
}

function reasons(broken: readonly Origin[]): string {
  const uses = broken.map((origin) =>
    (origin.broken ?? "")
      .replaceAll(/[^\w ,.'"-]+/g, " ")
      .trim()
      .slice(0, 60),
  );
  return [...new Set(uses)].join("; ");
}

/** How many recorded requests were sent to each other vendor, and why the others were refused, as a table and a list. */
export function requestTables(tallies: readonly Tally[]): { requests: string; reasons: string } {
  const told = (source: ProtocolName, target: ProtocolName): string => {
    const tally = tallies.find((each) => each.source === source && each.target === target);
    if (!tally) return "the very bytes";
    const refused = Object.values(tally.refused).reduce((sum, count) => sum + count, 0);
    return `${tally.sent} sent, ${refused} refused`;
  };
  const rows = PROTOCOLS.map(
    (source) => `| ${source} | ${PROTOCOLS.map((target) => told(source, target)).join(" | ")} |`,
  );
  const counts = new Map<string, number>();
  for (const { refused } of tallies)
    for (const [reason, count] of Object.entries(refused)) counts.set(reason, (counts.get(reason) ?? 0) + count);
  const reasons = [...counts].sort(([, a], [, b]) => b - a).map(([reason, count]) => `- ${count} × ${reason}`);
  const head = [
    `| requests of | ${PROTOCOLS.map((target) => `to ${target}`).join(" | ")} |`,
    "| --- | --- | --- | --- | --- |",
  ];
  return { requests: [...head, ...rows].join("\n"), reasons: reasons.join("\n") };
}

const PAGE = new URL("../../docs/fidelity.md", import.meta.url);

/** The page as it is, and as it should be: with each text between the two marks of its name. */
export function page(texts: Readonly<Record<string, string>>): { is: string; should: string } {
  const is = readFileSync(PAGE, "utf8");
  let should = is;
  for (const [mark, text] of Object.entries(texts))
    should = should.replace(
      new RegExp(`(<!-- ${mark} -->\n)[\\s\\S]*?(\n<!-- /${mark} -->)`),
      (_all, from: string, to: string) => `${from}${text}${to}`,
    );
  // `FIDELITY=write` brings the page up to date.
  if (process.env["FIDELITY"] === "write") writeFileSync(PAGE, should);
  return { is: process.env["FIDELITY"] === "write" ? should : is, should };
}
