import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** Bytes of one target's corpus: all of them are small enough to be looked at. */
const MAX_CORPUS_BYTES = 6000;

/** Where the inputs of a target are kept: each is a line, a JSON string of latin1. */
export const corpusFile = (name: string): string => fileURLToPath(new URL(`corpus/${name}.jsonl`, import.meta.url));

/** The inputs that are kept for a target. */
export function readCorpus(name: string): Buffer[] {
  const file = corpusFile(name);
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, "utf8").split("\n").filter(Boolean);
  return lines.map((line) => Buffer.from(JSON.parse(line) as string, "latin1"));
}

/** Keeps inputs for a target, the smallest that there is room for. Answers how many bytes these take. */
export function writeCorpus(name: string, inputs: readonly Buffer[]): number {
  let text = "";
  for (const bytes of inputs.toSorted((a, b) => a.length - b.length)) {
    const line = `${JSON.stringify(bytes.toString("latin1"))}\n`;
    if (text.length + line.length <= MAX_CORPUS_BYTES) text += line;
  }
  writeFileSync(corpusFile(name), text);
  return text.length;
}
