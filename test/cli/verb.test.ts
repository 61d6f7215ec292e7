import t from "tap";
import { COMMAND, commandAt } from "../../src/cli/verb.ts";

t.test("hints name the command that works where the gateway stands", async (t) => {
  t.equal(commandAt("file:///srv/app/node_modules/model-gateway/src/cli/verb.ts"), "npx model-gateway");
  t.equal(commandAt("file:///home/me/model-gateway/src/cli/verb.ts"), "npm start --");
  t.equal(COMMAND, "npm start --");
});
