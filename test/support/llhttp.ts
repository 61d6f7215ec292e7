import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { shared } from "./shared.ts";

/** A message of llhttp's own tests. */
export interface LlhttpMessage {
  name: string;
  /** latin1 */
  bytes: string;
  /** The type of test: `request`, `response-lenient-keep-alive`, … */
  type: string;
  /** The parser's expected log. */
  log: string;
}

/** Returns llhttp's messages of a kind; undefined if they are absent. */
export function llhttpMessages(kind: "request" | "response"): LlhttpMessage[] | undefined {
  const folder = shared(`vectors/llhttp-vectors/test/${kind}`);
  return folder === undefined ? undefined : readdirSync(folder).flatMap((file) => messages(folder, file));
}

function messages(folder: string, file: string): LlhttpMessage[] {
  const sections = readFileSync(join(folder, file), "latin1").split("<!-- meta=").slice(1);
  return sections.map((section, i) => {
    const block = (kind: string) => section.split(`\`\`\`${kind}\n`)[1]?.split("\n```")[0] ?? "";
    const { type } = JSON.parse(section.split(" -->")[0] as string) as { type: string };
    return { name: `${file} ${i + 1}`, bytes: written(block("http")), type, log: block("log") };
  });
}

/** Returns the bytes of a message in these files: a line ends with CRLF unless it is escaped. */
function written(text: string): string {
  const controls: Record<string, string> = { r: "\r", n: "\n", t: "\t", f: "\f" };
  return text
    .replaceAll(/\\\n/g, "")
    .replaceAll("\n", "\r\n")
    .replaceAll(/\\([rntf])/g, (_, letter: string) => controls[letter] as string)
    .replaceAll(/\\x([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}
