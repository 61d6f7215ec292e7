import type { Target } from "model-gateway";
import t from "tap";
import { balanceTargets, type TargetLoads } from "../../../plugins/models/balance.ts";
import { Marketplace } from "../../../src/core/marketplace.ts";
import { PriceList } from "../../../src/core/price-list.ts";
import { ConversationTargets } from "../../../src/upstream/conversation-targets.ts";
import { providerOf } from "../../support/provider.ts";

const provider = providerOf();
const target = (model: string, more: Partial<Target> = {}): Target => ({ provider, model, weight: 1, ...more });

/** How targets do, by their names; those that are named in `away` are left alone. */
const doing = (
  loads: Record<string, number> = {},
  away = "",
  conversations = new ConversationTargets(),
): TargetLoads => ({
  candidates: (targets) => targets.filter(({ model }) => !away.includes(model)),
  load: ({ model }) => loads[model] ?? 0,
  conversationTarget: (conversation) => conversations.get(conversation),
  recordConversation: (conversation, chosen) => conversations.record(conversation, Marketplace.nameOf(chosen)),
});

/** How often each comes first, of so many. */
function firsts(targets: readonly Target[], balance: "weighted" | "latency" | "cheapest", health: TargetLoads) {
  const counts: Record<string, number> = {};
  for (let i = 0; i < 2000; i++) {
    const order = balanceTargets({ targets, balance }, undefined, health);
    t.equal(new Set(order).size, targets.length, "each target once");
    const first = order[0]?.model ?? "";
    counts[first] = (counts[first] ?? 0) + 1;
  }
  return counts;
}

t.test("by weight, among those not at rest, which come last", async (t) => {
  const targets = [target("a", { weight: 8 }), target("b", { weight: 1 }), target("c", { weight: 1 })];
  const all = firsts(targets, "weighted", doing());
  t.ok((all["a"] ?? 0) > 1500 && (all["b"] ?? 0) > 100 && (all["c"] ?? 0) > 100, JSON.stringify(all));
  const without = firsts(targets, "weighted", doing({}, "a"));
  t.notOk(without["a"]);
  t.ok(Math.abs((without["b"] ?? 0) - (without["c"] ?? 0)) < 300, JSON.stringify(without));
  const order = balanceTargets({ targets, balance: "weighted" }, undefined, doing({}, "b"), () => 0.95);
  t.same(
    order.map(({ model }) => model),
    ["c", "a", "b"],
  );
});

t.test(
  "by latency: the better of two random ones, so that the worst is never first and no other is left out",
  async (t) => {
    const targets = [target("a"), target("b"), target("c"), target("d")];
    const counts = firsts(targets, "latency", doing({ a: 40, b: 10, c: 20, d: 30 }));
    t.notOk(counts["a"]);
    t.ok((counts["b"] ?? 0) > (counts["c"] ?? 0) && (counts["c"] ?? 0) > (counts["d"] ?? 0), JSON.stringify(counts));
    t.ok((counts["d"] ?? 0) > 200);
    t.same(Object.keys(firsts(targets.slice(0, 2), "latency", doing({ a: 40, b: 10 }))), ["b"]);
    t.same(Object.keys(firsts(targets.slice(0, 2), "latency", doing({ a: 40, b: 10 }, "b"))), ["a"]);
  },
);

t.test("the cheapest target comes first, by input and output price", async (t) => {
  const targets = [
    target("a", { prices: new PriceList([{ price: { input: 1, output: 20 } }], "test") }),
    target("b", { prices: new PriceList([{ price: { input: 2, output: 8 } }], "test") }),
    target("unpriced"),
    target("c", { prices: new PriceList([{ price: { input: 3, output: 9 } }], "test") }),
  ];
  const order = (away = "") =>
    balanceTargets({ targets, balance: "cheapest" }, undefined, doing({}, away)).map(({ model }) => model);
  t.same(order(), ["b", "c", "a", "unpriced"], "an unpriced model may be expensive");
  t.same(order("b"), ["c", "a", "unpriced", "b"]);
});

t.test("when all are at rest, all are listed in their order", async (t) => {
  const targets = [target("a"), target("b")];
  for (const balance of ["weighted", "latency", "cheapest"] as const)
    t.same(balanceTargets({ targets, balance }, undefined, doing({}, "ab")), targets);
});

t.test("a conversation keeps its target, until that is at rest", async (t) => {
  const targets = [target("a"), target("b"), target("c")];
  for (const balance of ["weighted", "latency", "cheapest"] as const) {
    const pin = `conversation by ${balance}`;
    const conversations = new ConversationTargets();
    const first = (away = "") =>
      balanceTargets({ targets, balance }, pin, doing({ a: 30, b: 20, c: 10 }, away, conversations))[0]?.model ?? "";
    const kept = first();
    for (let i = 0; i < 50; i++) t.equal(first(), kept);
    const moved = first(kept);
    t.not(moved, kept);
    for (let i = 0; i < 50; i++) t.equal(first(kept), moved);
  }
});
