import t from "tap";
import { PluginError, pluginError } from "../../src/loader/problems.ts";

t.test("each problem is one line with its file, and its place where that is known", async (t) => {
  const error = new PluginError([
    { file: "/a.ts", message: "wrong" },
    { file: "/b.ts", line: 3, column: 7, message: "also wrong" },
  ]);
  t.equal(error.message, "/a.ts: wrong\n/b.ts:3:7 error: also wrong");
  t.equal(pluginError("/a.ts", "wrong", "why").cause, "why");
});
