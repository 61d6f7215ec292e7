import type { HealthLimits, Provider } from "../../src/core/marketplace.ts";

/** The default health limits of gateway.yaml. */
export const HEALTH: HealthLimits = {
  ...{ failures: 5, errors: 0.5, requests: 20, window: 30_000 },
  ...{ slow: 0, open: 30_000, longest: 30_000 },
};

/** Returns a provider without timeouts, as loaded from gateway.yaml. */
export const providerOf = (changes: Partial<Provider> = {}): Provider => ({
  ...{ name: "p", url: new URL("http://up/v1"), credentials: [], speaks: [], forward: [] },
  ...{ timeouts: { connect: 0, first_byte: 0, idle: 0, total: 0 }, warm: 0, health: HEALTH },
  ...changes,
});

/** Returns credentials of a provider with these labels; the secret of each is `secret of LABEL`. */
export const credentialsOf = (...labels: string[]) =>
  labels.map((label) => ({ label, id: label, secret: `secret of ${label}`, account: `p/${label}` }));
