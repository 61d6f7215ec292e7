import t from "tap";
import { optionalPackage } from "../../src/store/optional-package.ts";

t.test("a package that is there is loaded, one that is not is told with what installs it", async (t) => {
  t.same(await optionalPackage("redis", async () => ({ createClient: 1 }), "This"), { createClient: 1 });
  const missing = () => import("no-such-package-of-the-tests" as string);
  await t.rejects(optionalPackage("redis", missing, "store: limits: redis://…"), {
    name: "FileError",
    message: /^store: limits: redis:\/\/… needs the package redis, which is not installed: npm i redis@\S*\d/,
  });
});

t.test("what breaks while it is loaded is no missing package", async (t) => {
  const broken = async () => {
    throw new SyntaxError("broken");
  };
  await t.rejects(optionalPackage("redis", broken, "This"), { name: "SyntaxError" });
});

t.test("packages that are needed together are told together", async (t) => {
  const missing = () => import("no-such-package-of-the-tests" as string);
  await t.rejects(optionalPackage(["redis", "postgres"], missing, "This"), {
    message: /^This needs the packages redis, postgres, which are not installed: npm i redis@\S+ postgres@\S+$/,
  });
});
