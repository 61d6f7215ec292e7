/**
 * How each field of a protocol's requests is translated to the others, as the table in its README. Run to regenerate the
 * tables: node --import ./src/loader/register.js test/support/fidelity.ts
 */
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Protocol } from "../../src/core/protocol.ts";
import { loadProtocols } from "../../src/loader/discover.ts";
import { clientTranslationOf, isTranslatable, type TranslatedProtocol } from "../../src/translation/codec.ts";
import { type Feature, type SupportTable, supportOf } from "../../src/translation/features.ts";

const OPEN = "<!-- fidelity -->";
const CLOSE = "<!-- /fidelity -->";

const LEGEND = `## Fidelity

What becomes of a request's fields when the provider speaks another protocol. *Dropped* fields are named in the header
\`gateway-dropped\`, *refused* ones are a 400 that names the field, *ignored* ones change nothing of the answer. With
\`gateway-strict: 1\` (or \`strict: true\` on the path) what would be dropped or changed is refused too. Made from the
protocols' tables by \`test/support/fidelity.ts\`.`;

/** Returns the README of a protocol. */
export const readmeOf = (name: string): string =>
  fileURLToPath(new URL(`../../plugins/protocols/${name}/README.md`, import.meta.url));

/** Reports whether requests can be encoded in a protocol: some are only decoded. */
const isTarget = ({ translation }: TranslatedProtocol): boolean =>
  Object.keys(translation.request.support).some(
    (feature) => supportOf(translation.request.support, feature as Feature).support === "mapped",
  );

const cell = (text: string): string => text.replaceAll("|", "\\|").replaceAll("\n", " ");

function uses(table: SupportTable, feature: Feature): string {
  const { support, note } = supportOf(table, feature);
  return cell(note === undefined ? support : `${support}: ${note}`);
}

/** Returns the section of one protocol, without its marks. */
export function fidelity(protocol: Protocol, all: readonly Protocol[]): string {
  const targets = all.filter(isTranslatable).filter((other) => other !== protocol && isTarget(other));
  const row = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;
  const lines = (clientTranslationOf(protocol)?.request.fields ?? []).map(([field, feature]) =>
    row([cell(field), ...targets.map(({ translation }) => uses(translation.request.support, feature))]),
  );
  const head = [row(["field", ...targets.map(({ name }) => name)]), row(["---", ...targets.map(() => "---")])];
  return [LEGEND, "", ...head, ...lines].join("\n");
}

/** Replaces a README's section. @throws Error if it has no place for one. */
export function withSection(readme: string, section: string): string {
  const from = readme.indexOf(OPEN);
  const to = readme.indexOf(CLOSE);
  if (from < 0 || to < from) throw new Error(`has no lines ${OPEN} and ${CLOSE}`);
  return `${readme.slice(0, from + OPEN.length)}\n${section}\n${readme.slice(to)}`;
}

/** Returns each README with a table, its content, and its section as it should be. */
export async function readmes(): Promise<{ name: string; file: string; is: string; section: string }[]> {
  const all = (await loadProtocols()).filter(clientTranslationOf);
  return all.map((protocol) => {
    const file = readmeOf(protocol.name);
    return { name: protocol.name, file, is: readFileSync(file, "utf8"), section: fidelity(protocol, all) };
  });
}

function write({ file, is, section }: { file: string; is: string; section: string }): void {
  try {
    const wanted = withSection(is, section);
    if (is !== wanted) writeFileSync(file, wanted);
  } catch (thrown) {
    console.error(`${file} ${(thrown as Error).message}`);
    process.exitCode = 1;
  }
}

if (import.meta.main) for (const readme of await readmes()) write(readme);
