import type { Config, ConfiguredPath } from "../config/types.ts";
import { table } from "../text/table.ts";
import { argumentsOf, type Terminal } from "./verb.ts";

/** Runs the verb `routes`. Returns the exit code 0. @throws Misuse */
export async function run(args: readonly string[], io: Terminal, config: Config): Promise<number> {
  const { values } = argumentsOf(args, { json: { type: "boolean" } });
  const routes = config.paths.map((path) => routeOf(path, config));
  if (values.json) {
    io.out(JSON.stringify(routes, undefined, 2));
    return 0;
  }
  const columns = ["PATH", "ANSWERS", "CHAIN", "PLUGINS"].map((title) => ({ title }));
  const rows = routes.map(({ path, answers, chain, plugins, strict }) => [
    path,
    strict ? `${answers} (strict)` : answers,
    chain === path ? "-" : chain,
    plugins.join(" "),
  ]);
  for (const line of table(columns, rows)) io.out(line);
  if (config.pathsOff.length > 0) io.out(`\noff: ${config.pathsOff.join(", ")}`);
  return 0;
}

function routeOf({ path, protocol, serve, pass, use, strict }: ConfiguredPath, { chains }: Config) {
  const answers =
    serve === undefined
      ? pass === undefined
        ? `models, as ${protocol}`
        : `provider ${pass.provider}, unread`
      : `plugin ${serve}`;
  return { path, answers, protocol: protocol ?? null, chain: use, plugins: chains.get(use) ?? [], strict };
}
