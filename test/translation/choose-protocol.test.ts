import t from "tap";
import { Body } from "../../src/core/body.ts";
import type { Exchange } from "../../src/core/exchange.ts";
import { type Target } from "../../src/core/marketplace.ts";
import type { Operation, Protocol } from "../../src/core/protocol.ts";
import { Protocols } from "../../src/core/protocols.ts";
import { chooseProtocol } from "../../src/translation/choose-protocol.ts";
import { scan } from "../../src/wire/json.ts";
import { COUNT, other, SAY, tiny } from "../support/tiny.ts";

const fixed = { ...tiny, name: "fixed", translation: undefined } as unknown as Protocol;
const better = {
  ...tiny,
  name: "better",
  better: { protocol: "other", isNeededFor: (body: Record<string, unknown>) => body["hard"] === true },
} as unknown as Protocol;
const protocols = new Protocols([tiny, other, fixed, better]);

function chosen(
  protocol: Protocol,
  speaks: string[],
  more: { protocolName?: string; operation?: Operation; body?: string } = {},
) {
  const { protocolName, operation = SAY, body = "{}" } = more;
  const bytes = Buffer.from(body);
  const exchange = { protocol, operation, body: new Body([bytes], scan(bytes)) } as unknown as Exchange;
  const target = {
    provider: { speaks },
    model: "m",
    weight: 1,
    ...(protocolName === undefined ? {} : { protocolName }),
  } as unknown as Target;
  const found = chooseProtocol(exchange, target, protocols);
  if (typeof found !== "object") return found;
  const { protocol: first, better: other } = found;
  return other ? `${first.name}, or ${other.name}` : first.name;
}

t.test("the client's own protocol where the provider speaks it", async (t) => {
  t.equal(chosen(tiny, ["other", "tiny"]), "own");
  t.equal(chosen(fixed, ["fixed"]), "own");
});

t.test("otherwise the first of the provider's that can be translated", async (t) => {
  t.equal(chosen(tiny, ["fixed", "unknown", "other", "better"]), "other");
  t.equal(chosen(tiny, ["fixed"]), undefined);
  t.equal(chosen(fixed, ["tiny"]), undefined, "a client's protocol that cannot be translated is sent nowhere else");
  t.equal(chosen(tiny, ["other"], { operation: { ...SAY, task: undefined } as never }), undefined);
});

t.test("the one in gateway.yaml comes first, where the provider speaks it", async (t) => {
  t.equal(chosen(tiny, ["tiny", "other", "better"], { protocolName: "better" }), "better");
  t.equal(chosen(tiny, ["other", "tiny"], { protocolName: "tiny" }), "own");
  t.equal(chosen(tiny, ["tiny", "other"], { protocolName: "better" }), "own");
  t.equal(chosen(fixed, ["fixed", "tiny"], { protocolName: "tiny" }), "own");
});

t.test("a preferred one only for requests that declare it, and never against gateway.yaml", async (t) => {
  const speaks = ["better", "other", "tiny"];
  t.equal(chosen(better, speaks, { body: '{"hard":true}' }), "other");
  t.equal(chosen(better, speaks, { body: '{"hard":false}' }), "own");
  t.equal(chosen(better, ["better"], { body: '{"hard":true}' }), "own");
  t.equal(chosen(better, speaks, { body: '{"hard":true}', protocolName: "tiny" }), "tiny");
  t.equal(chosen(better, speaks, { body: '{"hard":true}', protocolName: "better" }), "own");
});

t.test("a translated request may go to one that its protocol prefers, where the provider speaks both", async (t) => {
  t.equal(chosen(tiny, ["better", "other"]), "better, or other");
  t.equal(chosen(tiny, ["other", "better"]), "other");
  t.equal(chosen(tiny, ["better"]), "better");
  t.equal(chosen(tiny, ["better", "other"], { protocolName: "better" }), "better");
  t.equal(chosen(tiny, ["better", "other"], { operation: COUNT }), "better", "the other cannot count");
});

t.test("a preferred one is found without reading other members", async (t) => {
  const bytes = Buffer.from('{"hard":true,"large":[1,2,3]}');
  const read: string[] = [];
  const body = new Body([bytes], scan(bytes));
  const value = body.value.bind(body);
  body.value = (name) => {
    read.push(name);
    return value(name);
  };
  const exchange = { protocol: better, operation: SAY, body } as unknown as Exchange;
  chooseProtocol(
    exchange,
    { provider: { speaks: ["better", "other"] }, model: "m", weight: 1 } as unknown as Target,
    protocols,
  );
  t.same(read, ["hard"]);
});

t.test("tokens are counted only where the protocol has a count", async (t) => {
  t.equal(chosen(tiny, ["other", "better"], { operation: COUNT }), "better");
  t.equal(chosen(tiny, ["other"], { operation: COUNT }), undefined);
  t.equal(chosen(tiny, ["tiny"], { operation: COUNT }), "own");
});
