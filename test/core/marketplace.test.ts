import t from "tap";
import type { Caller } from "../../src/core/caller.ts";
import type { GatewayError } from "../../src/core/errors.ts";
import { Marketplace, type Model, type Provider, type Target } from "../../src/core/marketplace.ts";
import { PriceList } from "../../src/core/price-list.ts";

const model = (id: string, ...aliases: string[]): Model => ({
  id,
  name: id,
  aliases,
  created: 0,
  capabilities: [],
  targets: [{} as Target],
  balance: "weighted",
  fallback: [],
});
const market = new Marketplace([
  model("acme/sage", "sage", "sage-haiku-*"),
  model("acme/swift", "sage-haiku-4-*"),
  model("echo", "sage-*-mini*.", "sage-*-mini-p*"),
]);
const only = (...models: string[]) => ({ id: "k", name: "k", models });

t.test("a name is matched exactly, by id or alias, the longest wildcard alias first", async (t) => {
  t.equal(market.find("acme/sage")?.id, "acme/sage");
  t.equal(market.find("sage")?.id, "acme/sage");
  t.equal(market.find("sage-haiku-5")?.id, "acme/sage");
  t.equal(market.find("sage-haiku-4-5")?.id, "acme/swift");
  t.equal(market.find("sage-1-mini-preview")?.id, "echo");
  t.equal(market.find("sage-1-mini"), undefined, "a dot in an alias is a dot");
  t.equal(market.find("Sage"), undefined);
  t.equal(market.find("sage "), undefined);
});

t.test("a caller finds and lists only the models that its key may use", async (t) => {
  t.equal(market.find("acme/sage", only("echo")), undefined);
  t.same(
    market.list(only("echo")).map(({ id }) => id),
    ["echo"],
  );
  t.same(market.similarIds("acme/sag", only("echo")), []);
});

t.test(
  "a name that is no model the caller may use is refused, and only names that it may see are suggested",
  async (t) => {
    const refusal = (name: string, caller?: Caller) => {
      try {
        return market.require(name, caller).id;
      } catch (error) {
        const { code, message } = error as GatewayError;
        return `${code}: ${message}`;
      }
    };
    t.equal(refusal("echo", only("echo")), "echo");
    t.match(refusal("acme/sgae"), /^model_not_found: No model "acme\/sgae"\. Did you mean "acme\/sage"\?/);
    t.match(refusal("acme/sgae", only("echo")), /^model_not_found: No model "acme\/sgae"\. This key may use 1 model/);
    t.match(refusal("acme/sage", only("echo")), /^key_not_allowed: .* may not use the model "acme\/sage"/);
    t.match(refusal("acme/sage "), /^invalid_field: model begins or ends with white space/);
  },
);

t.test("a disabled model is neither usable nor suggested, unless its fallback is enabled", async (t) => {
  const off = (id: string, ...fallback: string[]): Model => ({ ...model(id), targets: [], fallback });
  const some = new Marketplace([model("echo"), off("echos"), off("echoes", "echo"), off("ech", "echos")]);
  t.same(
    some.usable().map(({ id }) => id),
    ["echo", "echoes"],
  );
  t.same(
    some.usable(only("echoes")).map(({ id }) => id),
    [],
    "a fallback that the key may not use is none",
  );
  t.same(some.similarIds("echoss"), ["echoes", "echo"]);
});

t.test("similar names are those one typing mistake away, nearest first", async (t) => {
  t.same(market.similarIds("acme/sgae"), ["acme/sage"]);
  t.same(market.similarIds("ehco"), ["echo"]);
  t.same(market.similarIds("something else entirely"), []);
});

t.test(
  "another requested model must exist at the same provider, and the caller must be allowed to use it",
  async (t) => {
    const [here, there] = [{ name: "here" }, { name: "there" }] as unknown as [Provider, Provider];
    const at = (provider: Provider, name: string) => ({ provider, model: name, weight: 1 });
    const market = new Marketplace([
      { ...model("m"), targets: [at(there, "m-there"), at(here, "m-here")] },
      { ...model("dear"), targets: [at(here, "dear-here")] },
    ]);
    t.equal(market.otherModelName("m", ["x"], here), "m-here");
    t.equal(market.otherModelName("dear", ["x"], there), "dear", "a name that is unknown there is the vendor's own");
    t.equal(market.otherModelName("m", ["x"], here, only("m")), "m-here");
    t.throws(() => market.otherModelName("m", ["tools", 0, "model"], { name: "nowhere" } as Provider, only("m")), {
      code: "not_served",
      param: "tools.0.model",
    });
    for (const name of ["dear", "m-here", "none"])
      t.throws(() => market.otherModelName(name, ["tools", 0, "model"], here, only("m")), {
        code: "key_not_allowed",
        param: "tools.0.model",
      });
    t.throws(() => market.otherModelName("dear", ["x"], there, only("dear")), { code: "not_served" });
    t.throws(() => market.otherModelName("dear", ["tools", "x".repeat(1000)], here, only("m")), {
      code: "key_not_allowed",
      param: "tools.…",
    });
    t.equal(market.findByTarget(here, "dear-here")?.id, "dear");
    t.equal(market.findByTarget(there, "dear-here"), undefined);
    t.equal(market.findByTarget(here, "dear-here", only("m")), undefined);
  },
);

t.test("a model's price at a provider is found by the vendor's name, with or without a date, or by ours", async (t) => {
  const [up, other] = ["up", "other"].map((name) => ({ name }) as Provider) as [Provider, Provider];
  const priced = (id: string, provider: Provider, name: string, usd?: number) => {
    const prices = usd === undefined ? {} : { prices: new PriceList([{ price: { input: usd } }], "test") };
    return { ...model(id), targets: [{ provider, model: name, weight: 1, ...prices }] };
  };
  const market = new Marketplace([
    priced("ours", up, "sage-5", 1),
    priced("dated", up, "swift-20260101", 2),
    priced("free", up, "unpriced"),
    priced("elsewhere", other, "echo", 3),
  ]);
  const usd = (name: string) => market.pricesAt(up, name)?.versionAt(0)?.price.input;
  t.same(
    ["sage-5", "sage-5-20260203", "ours", "swift", "swift-20260101", "swift-20260909"].map(usd),
    [1, 1, 1, 2, 2, 2],
  );
  t.same(["unpriced", "echo", "elsewhere", "sage-55"].map(usd), [undefined, undefined, undefined, undefined]);
});

t.test(
  "a target takes a protocol that its provider speaks untranslated, unless gateway.yaml names another for it",
  async (t) => {
    const native = (protocolName?: string) =>
      Marketplace.isNative({ provider: { speaks: ["one", "two"] }, protocolName } as unknown as Target, "one");
    t.ok(native());
    t.ok(native("one"));
    t.notOk(native("two"));
    t.notOk(Marketplace.isNative({ provider: { speaks: ["two"] }, protocolName: "one" } as unknown as Target, "one"));
  },
);
