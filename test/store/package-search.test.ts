import { join } from "node:path";
import t from "tap";
import { isInstalledSinceStart } from "../../src/store/package-search.ts";
import { ROOT } from "../support/processes.ts";

t.test("a package counts as installed since the start if it is new in a folder of packages", async (t) => {
  const folder = t.testdir({ "@a": { fresh: { "package.json": "{}" } } });
  t.ok(isInstalledSinceStart("@a/fresh", ["/nowhere", folder]));
  t.notOk(isInstalledSinceStart("@a/other", ["/nowhere", folder]), "it is not there");
  t.notOk(isInstalledSinceStart("zod", [join(ROOT, "node_modules")]), "it was there before");
  t.notOk(isInstalledSinceStart("zod"));
});
