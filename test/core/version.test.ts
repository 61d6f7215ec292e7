import t from "tap";
import { GATEWAY_VERSION } from "../../src/core/version.ts";

t.test("the program's version is one that npm accepts", async (t) => {
  t.match(GATEWAY_VERSION, /^\d+\.\d+\.\d+(?:-[\w.]+)?$/);
});
