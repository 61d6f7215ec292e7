import t from "tap";
import { parse } from "yaml";

// Written for browsers, and without types.
const { withUnset, yaml }: { withUnset: (written: object, more: object) => object; yaml: (tree: object) => string } =
  await import(new URL("../../pages/console/yaml.js", import.meta.url).href);

t.test("generated lines have the same meaning as the file, whatever their strings", async (t) => {
  const tree = {
    keys: {
      "a.b-c": { models: ["*", "fast-*", "a:b", "x, y"], addresses: ["10.0.0.0/8", "fd00::/8"], rpm: 300, tpm: "1M" },
      on: { budget: ["$5/day", { amount: "$8/month", soft: true }], expires: "2026-12-31", tpm: "400_000" },
      "@cf/x": { rpm: "off", owner: "yes", tags: { team: "a # b" } },
    },
    models: { m: { targets: [{ to: "up:m", weight: 1, price: { input: 1, above: [{ tokens: "128k", input: 2 }] } }] } },
    providers: { up: { health: { errors: "50%", open: "30s", slow: "500ms" } } },
  };
  t.same(parse(yaml(tree)), tree);
  t.match(yaml({ health: { errors: "50%", open: "30s", slow: "off" } }), "  errors: 50%\n  open: 30s\n  slow: off");
});

t.test("defaults are comments, and so is a name without values below it", async (t) => {
  const health = withUnset({ open: "1m" }, { open: "30s", failures: 5 });
  t.equal(
    yaml({ providers: { up: withUnset({ health }, { concurrency: 20 }) } }),
    "providers:\n  up:\n    health:\n      open: 1m\n      # failures: 5\n    # concurrency: 20",
  );
  const nothing = yaml({ limits: { groups: { acme: withUnset({}, { rpm: 300, budget: ["$5/day"] }) } } });
  t.equal(nothing, "# limits:\n#   groups:\n#     acme:\n#       rpm: 300\n#       budget: [$5/day]");
  t.same(parse(nothing), null, "an empty group would be an error in the file");
  t.match(parse(nothing.replaceAll(/^# /gm, "")), { limits: { groups: { acme: { rpm: 300 } } } });
});
