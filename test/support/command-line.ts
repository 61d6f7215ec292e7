import { runCommandLine } from "../../src/cli/command-line.ts";

/** What a command line has printed, and its exit code. */
interface Printed {
  out: string;
  err: string;
  status: number;
}

/** Runs a command line in this process, in a folder: a process of its own takes half a second of CPU. */
export async function runHere(
  args: readonly string[],
  folder: string,
  env: NodeJS.ProcessEnv = { PATH: process.env["PATH"] },
): Promise<Printed> {
  const printed = { out: "", err: "" };
  const out = (line: string) => {
    printed.out += `${line}\n`;
  };
  const err = (line: string) => {
    printed.err += `${line}\n`;
  };
  const { code } = await runCommandLine(args, { out, outNow: out, err, env, folder }, () => {});
  return { ...printed, status: code };
}
