import { argumentErrorText, type Terminal } from "../../src/cli/verb.ts";
import { UsageError } from "../../src/text/format-error.ts";

/** A terminal that keeps what is printed to it, in the order of printing. */
export function recordingTerminal({ env = {}, folder = "/" }: Partial<Pick<Terminal, "env" | "folder">> = {}) {
  const lines: string[] = [];
  const print = (line: string) => void lines.push(line);
  const io: Terminal = { out: print, outNow: print, err: print, env, folder };
  return { io, lines };
}

/**
 * Runs a verb. Returns its exit code and what it printed: `text` is all of it, in the order of printing.
 * @param usage the verb's, with which a wrong command line is reported as by the program; without it the error is thrown
 */
export async function captured(
  run: (io: Terminal) => Promise<number>,
  { env = {}, folder = "." }: Partial<Pick<Terminal, "env" | "folder">> = {},
  usage?: string,
  args?: readonly string[],
) {
  const printed: { line: string; to: "out" | "err" }[] = [];
  const io: Terminal = {
    ...{ env, folder },
    out: (line) => void printed.push({ line, to: "out" }),
    outNow: (line) => void printed.push({ line, to: "out" }),
    err: (line) => void printed.push({ line, to: "err" }),
  };
  const code = await run(io).catch((thrown: unknown) => {
    if (usage === undefined || !(thrown instanceof UsageError)) throw thrown;
    io.err(argumentErrorText(thrown.message, usage, args));
    return 2;
  });
  const linesOf = (lines: typeof printed) => lines.map(({ line }) => line).join("\n");
  const [out = "", err = ""] = (["out", "err"] as const).map((each) =>
    linesOf(printed.filter(({ to }) => to === each)),
  );
  return { code, out, err, text: linesOf(printed) };
}
