import t from "tap";
import type { Attempt } from "../../src/core/attempt.ts";
import { Body } from "../../src/core/body.ts";
import { GatewayError } from "../../src/core/errors.ts";
import { Exchange } from "../../src/core/exchange.ts";
import type { Head } from "../../src/core/head.ts";
import { Marketplace, type Model, type Provider, type Target } from "../../src/core/marketplace.ts";
import type { Operation, Protocol } from "../../src/core/protocol.ts";
import { Protocols } from "../../src/core/protocols.ts";
import type { TranslatedProtocol } from "../../src/translation/codec.ts";
import { Envelopes } from "../../src/translation/envelope.ts";
import { ExchangeTranslation } from "../../src/translation/exchange-translation.ts";
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
    targets: speaks.map((each) => ({ provider: provider(each), model: each.join(), weight: 1 })),
  }) as unknown as Model;

function planned(
  speaks: string[][],
  { text = "{}", operation = SAY, protocol = tiny }: { text?: string; operation?: Operation; protocol?: Protocol } = {},
) {
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
    ...{ credentials: [], protocol, operation, pathModel: "m" },
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

t.test("of requests to their own protocol only those have a translation that may lack state", async (t) => {
  const { request } = tiny.translation;
  const lost = {
    mayBeIn: (body: Body, { model }: { model: string }) => body.value("say") === "again" && model === "tiny",
    repairs: () => [],
  };
  const opaque = { ...request.opaque, lost };
  const protocol: Protocol = { ...tiny, ...{ translation: { ...tiny.translation, request: { ...request, opaque } } } };
  t.equal(planned([["tiny"]], { protocol, text: '{"say":"Hi"}' }).translation, undefined);
  t.ok(planned([["tiny"]], { protocol, text: '{"say":"again"}' }).translation);
  t.ok(planned([["tiny"], ["tiny", "other"]], { protocol, text: '{"say":"again"}' }).translation, "of one target");
  t.equal(planned([["tiny"]], { protocol, text: '{"say":"again"}', operation: COUNT }).translation, undefined);
});

t.test(
  "a request that the planned protocol refuses is sent in the client's own, and no other failure is hidden",
  async (t) => {
    const encode = (failure: GatewayError) => {
      const request = {
        ...other.translation.request,
        *encode() {
          yield;
          throw failure;
        },
      };
      const protocol = { ...other, translation: { ...other.translation, request } } as unknown as TranslatedProtocol;
      const target = { provider: provider(["tiny", "other"]), model: "theirs" } as unknown as Target;
      const { exchange } = planned([["tiny"]], { text: '{"say":"Hi"}' });
      const translation = new ExchangeTranslation(exchange, new Map([[target, { protocol }]]), envelopes, false);
      return translation.encode({ target, body: exchange.body } as Attempt);
    };
    t.equal(encode(new GatewayError("not_translatable")), false);
    t.throws(() => encode(new GatewayError("client_gone")), { code: "client_gone" });
  },
);

t.test("a whole answer that cannot be translated has the usage that it reports", async (t) => {
  const { exchange } = planned([["tiny"]], { text: '{"say":"Hi"}' });
  const translation = new ExchangeTranslation(exchange, new Map(), envelopes, false);
  const attempt = { target: exchange.targets[0], protocol: other } as unknown as Attempt;
  const usage = { in: { total: 5 }, out: { total: 2 } };
  const head = { status: 200, readBody: async () => Buffer.from(JSON.stringify({ usage })) } as unknown as Head;
  await t.rejects(translation.translateResponse(exchange as never, attempt, head));
  t.match(exchange.usage, usage);
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

t.test("a large count is estimated in other turns of the event loop, and as one at once", async (t) => {
  const say = "Is it cold outside? ".repeat(20_000);
  const { translation, exchange } = planned([["unheard-of"]], { operation: COUNT, text: JSON.stringify({ say }) });
  t.equal(exchange.answer, undefined);
  t.equal(await translation, undefined);
  const { body = "", headers } = exchange.answer as { body?: string; headers: object };
  t.match(headers, { "gateway-estimate": "input_tokens" });
  const { tokens } = JSON.parse(body) as { tokens: number };
  t.ok(tokens > 80_000 && tokens < 160_000, String(tokens));
  const cut = planned([["unheard-of"]], { operation: COUNT, text: `{"say":"${say}` });
  await t.rejects(Promise.resolve(cut.translation), { code: "invalid_json" });
});

t.test("envelopes are searched for only where some model is served in another protocol", async (t) => {
  const text = JSON.stringify({
    state: envelopes.seal({ protocol: "other", account: "x", kind: "own", data: "x" }),
    say: "hi",
  });
  t.equal(planned([["tiny"]], { text }).translation, undefined);
  t.ok(planned([["tiny"], ["other"]], { text }).translation);
});
