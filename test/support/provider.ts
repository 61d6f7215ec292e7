import type { HealthLimits, Provider } from "../../src/core/marketplace.ts";

/** When a target is left alone unless gateway.yaml says otherwise. */
export const HEALTH: HealthLimits = {
  ...{ failures: 5, errors: 0.5, requests: 20, window: 30_000 },
  ...{ slow: 0, open: 30_000, longest: 30_000 },
};

/** A provider without limits of time, as gateway.yaml would tell of it. */
export const providerOf = (changes: Partial<Provider> = {}): Provider => ({
  ...{ name: "p", url: new URL("http://up/v1"), credentials: [], speaks: [], forward: [] },
  ...{ timeouts: { connect: 0, first_byte: 0, idle: 0, total: 0 }, warm: 0, health: HEALTH },
  ...changes,
});

/** Credentials of a provider, by their labels; the text of each is `secret of LABEL`. */
export const credentialsOf = (...labels: string[]) =>
  labels.map((label) => ({ label, secret: `secret of ${label}`, account: `p/${label}` }));
