import t from "tap";
import { modelCard, protocolCards } from "../../src/console/model-card.ts";
import { Attempt } from "../../src/core/attempt.ts";
import { Body } from "../../src/core/body.ts";
import { Marketplace, type Model, type Target } from "../../src/core/marketplace.ts";
import { PriceList } from "../../src/core/price-list.ts";
import { loadProtocols } from "../../src/loader/discover.ts";
import { Health } from "../../src/upstream/health.ts";
import { HeaderList } from "../../src/wire/headers.ts";
import { MemoryLog } from "../support/gateway.ts";
import { credentialsOf, providerOf } from "../support/provider.ts";
import { tiny } from "../support/tiny.ts";

const protocols = await loadProtocols();
const served = protocols.map(({ name }) => name);
const health = new Health(0.5, new MemoryLog());
const surroundings = { marketplace: new Marketplace([]), health, protocols, now: 0 };

const target = (speaks: string[], more: Partial<Target> = {}): Target => ({
  provider: providerOf({ name: speaks.join("+"), speaks }),
  ...{ model: "m", weight: 1 },
  ...more,
});
const model = (targets: Target[], more: Partial<Model> = {}): Model => ({
  ...{ id: "m", name: "M", aliases: [], created: 0, capabilities: [], balance: "weighted", fallback: [], targets },
  ...more,
});

/** Records an answer of a target. */
function answer(health: Health, target: Target, status: number): void {
  const start = { protocol: tiny, method: "POST", headers: new HeaderList(), body: Body.empty, startedAt: 0 };
  const attempt = new Attempt({ target, ...start });
  attempt.status = status;
  const run = health.recordStart(attempt);
  health.recordResponse(attempt, status, undefined, 10);
  if (status === 200) health.recordEnd(attempt, "whole");
  run.end();
}

/** Lets a target fail until it is suspended. */
function failOften(health: Health, target: Target): void {
  for (let i = 0; i < 5; i++) answer(health, target, 503);
}

t.test("a protocol is native, translated, or both where targets differ", async (t) => {
  const { protocols: one } = modelCard(model([target(["anthropic-messages"])]), served, surroundings);
  t.match(one, { "anthropic-messages": "native", "openai-chat": "translated", gemini: "translated" });
  t.notOk(Object.hasOwn(one, "openai-embeddings"));
  t.notOk(Object.hasOwn(one, "openai-realtime"), "WebSocket protocols are not shown");
  const { protocols: two } = modelCard(
    model([target(["anthropic-messages"]), target(["gemini"])]),
    served,
    surroundings,
  );
  t.match(two, { "anthropic-messages": "mixed", gemini: "mixed", "openai-chat": "translated" });
  const { protocols: few } = modelCard(model([target(["gemini"])]), ["gemini"], surroundings);
  t.same(few, { gemini: "native" }, "only protocols with a path");
});

t.test("a model for embeddings or images is reached by no other protocol", async (t) => {
  const all = ["openai-chat", "openai-embeddings", "openai-images"];
  const of = (capabilities: string[], speaks = all) =>
    modelCard(model([target(speaks)], { capabilities }), served, surroundings).protocols;
  t.same(of(["embeddings"]), { "openai-embeddings": "native" });
  t.same(of(["images", "vision"]), { "openai-images": "native" });
  t.match(of(["images"], ["gemini"]), { gemini: "native" }, "where images are part of a conversation");
  t.notOk(Object.hasOwn(of(["tools"]), "openai-images"));
});

t.test("shares, prices and health are those of the targets", async (t) => {
  const prices = new PriceList([{ price: { input: 3 } }], "gateway.yaml");
  const provider = providerOf({ name: "a", speaks: ["gemini"], credentials: credentialsOf("ONE") });
  const first: Target = { provider, model: "x", weight: 3, prices };
  const second = target(["gemini"], { weight: 1 });
  const card = modelCard(model([first, second]), served, surroundings);
  t.same(
    card.targets.map(({ share }) => share),
    [0.75, 0.25],
  );
  t.match(card, { state: "ok", price: { input: 3 }, targets: [{ priceSources: { input: "gateway.yaml" } }, {}] });
  const latency = modelCard(model([first, second], { balance: "latency" }), served, surroundings);
  t.equal(latency.targets[0]?.share, undefined, "the shares vary over time");
});

t.test("a target that is tried again after its failures does not make its model well before it has answered", (t) => {
  const watch = { now: 1000 };
  const own = new Health(0.5, new MemoryLog(), () => watch.now);
  const [failing, other] = [target(["gemini"]), target(["anthropic-messages"])];
  const stateOf = (...targets: Target[]) => modelCard(model(targets), served, { ...surroundings, health: own }).state;
  t.equal(stateOf(failing), "ok");
  failOften(own, failing);
  t.same([stateOf(failing), stateOf(failing, other)], ["down", "degraded"]);
  watch.now += 300_000;
  t.same([stateOf(failing), stateOf(failing, other)], ["tried", "degraded"]);
  answer(own, failing, 200);
  t.equal(stateOf(failing), "ok");
  t.end();
});

t.test("a model whose own targets are down says so, and that its fallback answers", (t) => {
  const watch = { now: 1000 };
  const own = new Health(0.5, new MemoryLog(), () => watch.now);
  const [first, second] = [target(["gemini"]), target(["anthropic-messages"])];
  const other = model([second], { id: "other" });
  const around = { ...surroundings, marketplace: new Marketplace([other]), health: own };
  const shown = () => {
    const { state, fallbackAnswers } = modelCard(model([first], { fallback: ["other"] }), served, around);
    return [state, fallbackAnswers];
  };
  t.same(shown(), ["ok", undefined], "nobody needs the fallback");
  failOften(own, first);
  t.same(shown(), ["down", true]);
  watch.now += 300_000;
  t.same(shown(), ["tried", true], "only one request at a time goes to its own target");
  own.setSwitchedOff(second.provider.name, true);
  t.same(shown(), ["tried", undefined]);
  own.setSwitchedOff(second.provider.name, false);
  own.setSwitchedOff(first.provider.name, true);
  t.same(shown(), ["down", true]);
  failOften(own, second);
  t.same(shown(), ["down", undefined]);
  t.end();
});

t.test("a protocol's losses are those that its table declares", async (t) => {
  const cards = protocolCards(
    protocols,
    new Map([
      ["gemini", "/v1beta/models/*"],
      ["openai-embeddings", "/v1/embeddings"],
    ]),
  );
  t.same(cards.map(({ name, path }) => `${name} ${path}`).sort(), [
    "gemini /v1beta/models/*",
    "openai-embeddings /v1/embeddings",
  ]);
  const losses = cards.find(({ name }) => name === "gemini")?.losses ?? [];
  t.ok(losses.some(({ feature, support }) => feature === "logit_bias" && support === "refused"));
  t.ok(losses.every(({ support }) => support === "dropped" || support === "refused"));
});
