import { COMMAND } from "../verb.ts";

/** The lines of the overall help. */
export const help = `plugin new NAME | test | list write a plugin with its test, test this folder's plugins, or list all`;

/** What `--help` behind the verb prints. */
export const USAGE = `usage: ${COMMAND} plugin new NAME
       ${COMMAND} plugin test [FILE …]
       ${COMMAND} plugin list [--json]

  new    writes plugins/NAME.ts, a plugin that adds a header to every response, and test/NAME.test.ts, which checks that in
         every protocol, streamed and whole
  test   runs tests with Node's own runner, with TypeScript, decorators and model-gateway/testing: the given files, or
         test/*.test.ts (.mts, .js, .mjs); options of node --test follow --
  list   shows the plugins of this folder and the built-in ones

See docs/plugins.md for what a plugin can do, and how to test it.`;
