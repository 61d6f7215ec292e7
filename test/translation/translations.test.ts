import t from "tap";
import { Body } from "../../src/core/body.ts";
import { Exchange } from "../../src/core/exchange.ts";
import { Marketplace, type Model, type Provider } from "../../src/core/marketplace.ts";
import type { Operation, Protocol } from "../../src/core/protocol.ts";
import { Protocols } from "../../src/core/protocols.ts";
import { Envelopes } from "../../src/translation/envelope.ts";
import { Translations } from "../../src/translation/translations.ts";
import { HeaderList } from "../../src/wire/headers.ts";
import { Query } from "../../src/wire/query.ts";
import { COUNT, other, SAY, tiny } from "../support/tiny.ts";

const envelopes = new Envelopes("a secret of this test");
const provider = (speaks: string[]) => ({ name: speaks.join(), speaks, forward: [] }) as unknown as Provider;
const model = (...speaks: string[][]): Model =>
  ({
    id: "m",
    aliases: [],
    targets: speaks.map((each) => ({ provider: provider(each), model: "theirs", weight: 1 })),
  }) as unknown as Model;

function planned(speaks: string[][], { text = "{}", operation = SAY }: { text?: string; operation?: Operation } = {}) {
  const marketplace = new Marketplace([model(...speaks)]);
  const translations = new Translations(new Protocols([tiny, other]), envelopes, marketplace);
  const exchange = new Exchange({
    ...{
      id: "id",
      time: 0,
      arrivedAt: 0,
      method: "POST",
      path: "/say",
      query: new Query(""),
      headers: new HeaderList(),
    },
    ...{ credentials: [], protocol: tiny as Protocol, operation, pathModel: "m" },
  });
  exchange.body = new Body([Buffer.from(text)], "json");
  const [first] = marketplace.models;
  if (first) exchange.model = first;
  exchange.targets = [...(first?.targets ?? [])];
  return { translation: translations.plan(exchange), exchange };
}

t.test("where every target speaks the client's protocol nothing is translated", async (t) => {
  t.equal(planned([["tiny"], ["tiny", "other"]]).translation, undefined);
});

t.test("targets that cannot be called are left out, and the others are called in their protocol", async (t) => {
  const { translation, exchange } = planned([["unheard-of"], ["other"]]);
  t.ok(translation);
  t.same(
    exchange.targets.map((target) => target.provider.name),
    ["other"],
  );
});

t.test("a model without a callable target is not served, and the message names what its providers speak", async (t) => {
  t.throws(() => planned([["unheard-of"]]), {
    code: "not_served",
    message: /"m" is not served in the protocol tiny/,
  });
});

t.test("a count that no provider can compute is an estimate", async (t) => {
  const { exchange } = planned([["unheard-of"]], { operation: COUNT, text: '{"say":"Hello"}' });
  t.match(exchange.answer, { status: 200, headers: { "gateway-estimate": "input_tokens" } });
});

t.test("envelopes are searched for only where some model is served in another protocol", async (t) => {
  const text = JSON.stringify({
    state: envelopes.seal({ protocol: "other", account: "x", kind: "own", data: "x" }),
    say: "hi",
  });
  t.equal(planned([["tiny"]], { text }).translation, undefined);
  t.ok(planned([["tiny"], ["other"]], { text }).translation);
});
