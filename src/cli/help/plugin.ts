import { COMMAND } from "../verb.ts";

/** The lines of the overall help. */
export const help = `plugin new NAME | test | list write a plugin with its test, test those in this folder, or show those that there are`;

/** What `--help` behind the verb prints. */
export const USAGE = `usage: ${COMMAND} plugin new NAME
       ${COMMAND} plugin test [FILE …]
       ${COMMAND} plugin list [--json]

  new    writes plugins/NAME.ts, a plugin that puts a header on every answer, and test/NAME.test.ts, which asks that of it in
         every protocol, streamed and whole
  test   runs tests with Node's own runner, where TypeScript, decorators and model-gateway/testing are at hand: those files, or
         test/*.test.ts (.mts, .js, .mjs); behind -- options of node --test
  list   shows the plugins of this folder and those that came along

docs/plugins.md says what a plugin can do, and how it is tested.`;
