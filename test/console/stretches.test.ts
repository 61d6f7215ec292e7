import t from "tap";

type Part = { who: string; what: string; from: number; to: number; kind: string; why?: string };
// Written for browsers, and without types.
const { stretches }: { stretches: (request: object) => Part[] } = await import(
  new URL("../../pages/console/stretches.js", import.meta.url).href
);
const parts = (request: object): [string, number, number, string][] =>
  stretches(request).map(({ what, from, to, kind }) => [what, from, to, kind]);

t.test("a usual exchange has the gateway's own time, the wait for the first byte and the response", async (t) => {
  const attempts = [{ target: "p:m", status: 200, startedAt: 2 }];
  t.same(parts({ attempts, firstByte: 300, duration: 1000 }), [
    ["before the first attempt", 0, 2, "own"],
    ["200 until the first byte", 2, 300, "wait"],
    ["answer", 300, 1000, "stream"],
  ]);
});

t.test("the wait for a slot and the connection are separate parts, and so is a pause before a retry", async (t) => {
  const attempts = [
    {
      target: "p:m",
      status: 503,
      error: "upstream_refused",
      message: "It is busy.",
      startedAt: 50,
      queue: 40,
      took: 100,
    },
    { target: "q:m", status: 200, startedAt: 400, queue: 50, connect: 30 },
  ];
  const request = { attempts, firstByte: 600, duration: 1000 };
  t.same(parts(request), [
    ["before the first attempt", 0, 10, "own"],
    ["waited for a place", 10, 50, "queue"],
    ["upstream_refused", 50, 150, "failed"],
    ["before the next attempt", 150, 350, "own"],
    ["waited for a place", 350, 400, "queue"],
    ["connect", 400, 430, "connect"],
    ["200 until the first byte", 430, 600, "wait"],
    ["answer", 600, 1000, "stream"],
  ]);
  t.equal(stretches(request)[2]?.why, "It is busy.");
});

t.test(
  "a response that breaks off failed from its first byte, one that never came during all of its time",
  async (t) => {
    const broken = { target: "p:m", status: 200, error: "upstream_truncated", message: "It broke off.", startedAt: 1 };
    t.same(parts({ attempts: [broken], firstByte: 100, duration: 500 }).slice(1), [
      ["200 until the first byte", 1, 100, "wait"],
      ["answer: upstream_truncated", 100, 500, "failed"],
    ]);
    const late = { target: "p:m", error: "upstream_timeout", startedAt: 1, connect: 20 };
    t.same(parts({ attempts: [late], duration: 500 }).slice(1), [
      ["connect", 1, 21, "connect"],
      ["upstream_timeout", 21, 500, "failed"],
    ]);
    t.same(parts({ attempts: [{ target: "p:m", startedAt: 1 }], duration: 500 }).at(-1), [
      "no answer",
      1,
      500,
      "failed",
    ]);
    t.same(parts({ attempts: [], duration: 5 }), [["no attempt", 0, 5, "own"]]);
  },
);
