import t from "tap";
import { optionalPackage } from "../../src/store/optional-package.ts";

t.test("an installed package is loaded, a missing one is reported with the command that installs it", async (t) => {
  t.same(await optionalPackage("redis", async () => ({ createClient: 1 }), "This"), { createClient: 1 });
  const missing = () => import("no-such-package-of-the-tests" as string);
  await t.rejects(optionalPackage("redis", missing, "store: limits: redis://…"), {
    name: "FileError",
    message: /^store: limits: redis:\/\/… needs the package redis, which is not installed: npm i redis@\S*\d/,
  });
});

t.test("a package that fails while it is loaded is not a missing package", async (t) => {
  const broken = async () => {
    throw new SyntaxError("broken");
  };
  await t.rejects(optionalPackage("redis", broken, "This"), { name: "SyntaxError" });
});

t.test("packages that are required together are reported together", async (t) => {
  const missing = () => import("no-such-package-of-the-tests" as string);
  await t.rejects(optionalPackage(["redis", "postgres"], missing, "This"), {
    message: /^This needs the packages redis, postgres, which are not installed: npm i redis@\S+ postgres@\S+$/,
  });
});
