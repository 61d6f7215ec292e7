// Apart from gateway.ts: tests that start gateways in processes of their own need not load one.

/** A key of test gateways. */
export const KEY = "test-key-0123456789abcdef";

/** Returns headers of a JSON request with the test's key. */
export const asking = (more: Record<string, string> = {}): Record<string, string> => ({
  authorization: `Bearer ${KEY}`,
  "content-type": "application/json",
  ...more,
});
