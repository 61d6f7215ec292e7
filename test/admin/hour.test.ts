import t from "tap";
import type { AdminGateway } from "../../src/admin/admin-gateway.ts";
import { lastHour } from "../../src/admin/hour.ts";

/** A ledger that knows of one target, and of so many exchanges. */
const subjectWith = (attempts: readonly { startedAt: number }[][]): AdminGateway => {
  const speed = { name: "p:m", requests: 2 };
  const ledger = {
    failures: async () => ({
      exchanges: [{ target: "p:m", model: "m", outcome: "upstream_error", status: 502, requests: 1 }],
      attempts: [{ target: "q:m", status: 429, attempts: 7, answered: 6 }],
    }),
    speeds: async (_: object, by: string) => [{ ...speed, name: by }],
    search: async ({ limit }: { limit: number }) => attempts.slice(0, limit).map((each) => ({ attempts: each })),
  };
  return { stores: { ledger } } as unknown as AdminGateway;
};

t.test(
  "the last hour has the failures, the speed of each target, and the gateway's time before the first attempt",
  async (t) => {
    const rows = [[{ startedAt: 3 }, { startedAt: 900 }], [], [{ startedAt: 1 }], [{ startedAt: 2 }]];
    t.match(await lastHour(subjectWith(rows)), {
      ...{ errors: [{ target: "p:m", requests: 1 }], attempts: [{ target: "q:m", attempts: 7, answered: 6 }] },
      ...{ models: [{ name: "model" }], targets: [{ name: "target" }] },
      overhead: { p50: 2, p95: 3, count: 3 },
    });
  },
);

t.test("without any request the gateway's own time is not reported", async (t) => {
  t.match(await lastHour(subjectWith([[]])), { overhead: undefined });
});
