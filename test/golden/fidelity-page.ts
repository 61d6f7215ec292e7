/** The tables of docs/fidelity.md, from what the matrix found. */

import { PROTOCOLS, type ProtocolName } from "../support/vendor-sdks.ts";
import type { Origin, Verdict } from "./matrix.ts";
import { excuse, REFUSED } from "./refused.ts";

/** A verdict that no listed reason explains. */
export const unexplained = (verdicts: readonly Verdict[], found: readonly Origin[]): Verdict[] => {
  const broken = new Set(found.filter((origin) => origin.broken).map(({ recording }) => recording.id));
  return verdicts.filter((verdict) => verdict.fault && !broken.has(verdict.recording) && !excuse(verdict));
};

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
  return [...listed, `- ${broken.length} × the vendor's own SDK refuses the answer too (${reasons(broken)})`].join(
    "\n",
  );
}

function reasons(broken: readonly Origin[]): string {
  const said = broken.map((origin) =>
    (origin.broken ?? "")
      .replaceAll(/[^\w ,.'"-]+/g, " ")
      .trim()
      .slice(0, 60),
  );
  return [...new Set(said)].join("; ");
}
