import type { Config, ConfiguredPath } from "../config/types.ts";
import { printTable } from "../text/table.ts";
import { parseVerbArguments, printJson, type Terminal } from "./verb.ts";

/** Runs the verb `routes`. Returns the exit code 0. @throws UsageError */
export async function runRoutes(args: readonly string[], io: Terminal, config: Config): Promise<number> {
  const { values } = parseVerbArguments(args, { json: { type: "boolean" } });
  const routes = config.paths.map((path) => describeRoute(path, config));
  if (values.json) {
    printJson(routes, io);
    return 0;
  }
  const columns = ["PATH", "ANSWERS", "CHAIN", "PLUGINS"];
  const rows = routes.map(({ path, answers, chain, plugins, strict }) => [
    path,
    strict ? `${answers} (strict)` : answers,
    chain === path ? "-" : chain,
    plugins.join(" "),
  ]);
  printTable(columns, rows, io);
  if (config.pathsOff.length > 0) io.out(`\noff: ${config.pathsOff.join(", ")}`);
  return 0;
}

function describeRoute({ path, protocol, serve, pass, use, strict }: ConfiguredPath, { chains }: Config) {
  const answers =
    serve === undefined
      ? pass === undefined
        ? `models, as ${protocol}`
        : `provider ${pass.provider}, unread`
      : `plugin ${serve}`;
  return { path, answers, protocol: protocol ?? null, chain: use, plugins: chains.get(use) ?? [], strict };
}
