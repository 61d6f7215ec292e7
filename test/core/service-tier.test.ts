import t from "tap";
import { premiumTier, tierMembers } from "../../src/core/service-tier.ts";

const output = {
  tokens: [],
  multipliers: [],
  tierMembers: ["tier", "serviceTier"],
  premiumTier: ["speed", "fast", "fast"],
} as const;
const asked = (request: Record<string, unknown>) => (name: string) => request[name];

t.test("a tier is named by service_tier, or by what the protocol says", async (t) => {
  t.same(tierMembers({}), ["service_tier"]);
  t.same(tierMembers({ output }), ["tier", "serviceTier"]);
});

t.test("a more expensive tier is one with the word priority in any member, or the protocol's own value", async (t) => {
  t.equal(premiumTier({}, asked({ service_tier: "ON_DEMAND_PRIORITY" })), "priority");
  t.equal(premiumTier({ output }, asked({ serviceTier: "priority" })), "priority");
  t.equal(premiumTier({ output }, asked({ speed: "fast", tier: "priority" })), "fast");
  for (const request of [{}, { tier: "flex" }, { tier: 1 }, { speed: "usual" }, { service_tier: "priority" }])
    t.equal(premiumTier({ output }, asked(request)), undefined, JSON.stringify(request));
});
