import t from "tap";
import type { Attempt } from "../../src/core/attempt.ts";
import { ProviderRates } from "../../src/upstream/provider-rates.ts";
import { HeaderList } from "../../src/wire/headers.ts";

const attempt = (model: string, remainingRateHeaders?: [string, string][]) =>
  ({ target: { provider: { name: "up" }, model }, protocol: { remainingRateHeaders } }) as unknown as Attempt;

t.test(
  "a provider's remaining limits are read once a second, and values that are not numbers are ignored",
  async (t) => {
    let now = 0;
    const rates = new ProviderRates(() => now);
    const fine = attempt("fine", [
      ["requests", "x-left"],
      ["tokens", "x-left-tokens"],
    ]);
    rates.record(fine, new HeaderList(["X-Left", "7", "x-left-tokens", "many"]));
    t.same(rates.all, [{ target: "up:fine", kind: "requests", remaining: 7 }]);
    now = 999;
    rates.record(fine, new HeaderList(["x-left", "6"]));
    t.match(rates.all, [{ remaining: 7 }]);
    now = 1000;
    rates.record(fine, new HeaderList(["x-left", "5", "x-left-tokens", "80"]));
    t.match(rates.all, [{ remaining: 5 }, { kind: "tokens", remaining: 80 }]);
    rates.record(attempt("other"), new HeaderList(["x-left", "1"]));
    t.equal(rates.all.length, 2);
  },
);
