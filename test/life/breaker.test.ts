/** One of four targets fails in many ways under a steady load: what clients notice, and when it is asked again. */
import { setTimeout as after } from "node:timers/promises";
import t, { type Test } from "tap";
import { asking, startGateway } from "../support/gateway.ts";
import { until } from "../support/until.ts";
import { httpUpstream } from "../support/upstream.ts";

/** Seconds for which it fails, requests per second, and how long it is left alone at first. */
const SECONDS = Number(process.env["GATEWAY_TEST_BREAKER_SECONDS"] ?? 2);
const RATE = 30;
const OPEN = process.env["GATEWAY_TEST_BREAKER_OPEN"] ?? "1s";
/** Seconds that clients may notice it, and the share of requests that may fail from then on. */
const NOTICED = 2;
const MAX_FAILED_SHARE = 0.01;
/** Failures in a row after which a target is no longer called, by default. */
const FAILURES = 5;
/** Seconds within which it has its share again once it has recovered, whatever it has done before. */
const BACK = 35;

type Way = "resetting" | "failing" | "silent" | "flapping" | "limited";

// All ways at the same time: most of it is waiting.
t.jobs = 5;

/** Four providers, the first of which can be broken in a way. */
async function four(t: Test) {
  let way: Way | "well" = "well";
  const upstreams = await Promise.all(
    [0, 1, 2, 3].map((i) =>
      httpUpstream((_, reply) => {
        const now = i > 0 || (way === "flapping" && Math.floor(performance.now() / 500) % 2 === 0) ? "well" : way;
        if (now === "silent") return;
        if (now === "resetting") return reply.destroy();
        const status = now === "well" ? 200 : now === "limited" ? 429 : 503;
        return reply.writeHead(status, { "content-type": "application/json" }).end("{}");
      }),
    ),
  );
  t.teardown(() => Promise.all(upstreams.map((upstream) => upstream.close())));
  return { upstreams, be: (now: typeof way) => (way = now) };
}

/** A steady load; answers what each request came to, with its time in seconds, until told to end. */
function load(url: string) {
  const began = performance.now();
  const results: { at: number; status: number }[] = [];
  const running = new Set<Promise<void>>();
  const timer = setInterval(() => {
    const at = (performance.now() - began) / 1000;
    const body = '{"model":"m","messages":[]}';
    const asked = fetch(`${url}/v1/chat/completions`, { method: "POST", headers: asking(), body })
      .then(async (answer) => {
        await answer.arrayBuffer();
        return answer.status;
      })
      .catch(() => 0)
      .then((status) => {
        results.push({ at, status });
        running.delete(asked);
      });
    running.add(asked);
  }, 1000 / RATE);
  const end = async () => {
    clearInterval(timer);
    await Promise.all(running);
  };
  return { results, end, now: () => (performance.now() - began) / 1000 };
}

for (const way of ["resetting", "failing", "silent", "flapping", "limited"] as const)
  t.test(
    `one of four targets is ${way}: others take over, and it is called again once it has recovered`,
    { buffered: true },
    async (t) => {
      const { upstreams, be } = await four(t);
      const providers = upstreams.map(
        ({ origin }, i) =>
          `  p${i}: { url: "${origin.origin}/v1", speaks: [openai-chat], credential: "secret-${i}-0123456789", timeouts: { first_byte: ${way === "silent" ? "1s" : "10s"} }, health: { open: ${OPEN} } }`,
      );
      const { url } = await startGateway(
        t,
        `providers:\n${providers.join("\n")}\nmodels: { m: { targets: [p0:x, p1:x, p2:x, p3:x] } }\nplugins: { models: { continuity: off } }\n`,
      );
      const { results, end, now } = load(url);
      await until(() => upstreams.every(({ seen }) => seen.length > 2), "a share of the load for each");
      be(way);
      const broken = now();
      await after((NOTICED + SECONDS) * 1000);
      const well = now();
      be("well");
      const first = upstreams[0]?.seen ?? [];
      // Its share of some requests, not a single probe.
      const before = { its: first.length, all: results.length };
      while (first.length - before.its < 5 && now() - well < BACK) await after(5);
      const back = now() - well;
      await end();
      const during = results.filter(({ at }) => at > broken + NOTICED && at < well);
      const failed = during.filter(({ status }) => status !== 200);
      const early = results.filter(({ at, status }) => at >= broken && at <= broken + NOTICED && status !== 200).length;
      t.ok(during.length > (SECONDS * RATE) / 4, `${during.length} requests`);
      // A probe that fails is somebody's request, where it may not be sent again.
      const probes = way === "resetting" ? Math.ceil(Math.log2(SECONDS / Number.parseFloat(OPEN) + 1)) + 1 : 0;
      // On a busy machine so few requests may be under way that it is noticed later.
      const unnoticed = way === "resetting" ? Math.max(0, FAILURES - early) : 0;
      t.ok(
        failed.length <= Math.max(Math.ceil(MAX_FAILED_SHARE * during.length), probes) + unnoticed,
        `${failed.length} of ${during.length} failed`,
      );
      t.ok(back < BACK, `back after ${back.toFixed(1)} s`);
      t.comment(
        `${way}: ${early} failed in the first ${NOTICED} s, ${failed.length} of ${during.length} (${((100 * failed.length) / during.length).toFixed(2)} %) afterwards, back after ${back.toFixed(1)} s`,
      );
    },
  );
