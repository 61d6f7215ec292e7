import { writeFileSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import t, { type Test } from "tap";
import type { Access } from "../../src/admin/access.ts";
import type { AdminGateway } from "../../src/admin/admin-gateway.ts";
import { LiveStream } from "../../src/admin/live-stream.ts";
import type { AdminUser } from "../../src/admin/user.ts";
import { KEY, MemoryLog } from "../support/gateway.ts";
import { until } from "../support/until.ts";
import { startAdmin, TOKEN, VIEWER, WITH_TOKENS, YAML } from "./support.ts";

const KEYS = `keys: { test: { key: ${KEY} } }\n`;

interface Told {
  event: string;
  // biome-ignore lint/suspicious/noExplicitAny: events of any shape.
  data: any;
}

/** What somebody who watches is told, one after the other; the end as `closed`. */
async function watch(t: Test, base: string, headers: Record<string, string> = {}) {
  const ending = new AbortController();
  t.teardown(() => ending.abort());
  const response = await fetch(`${base}/api/live/events`, { headers, signal: ending.signal });
  const told: Told[] = [];
  let wake = () => {};
  void (async () => {
    let text = "";
    try {
      for await (const piece of response.body ?? []) {
        text += Buffer.from(piece).toString();
        for (let at = text.indexOf("\n\n"); at >= 0; at = text.indexOf("\n\n")) {
          const [, event, data] = /^event: (\w+)\ndata: (.*)$/.exec(text.slice(0, at)) ?? [];
          text = text.slice(at + 2);
          if (event && data) told.push({ event, data: JSON.parse(data) });
        }
        wake();
      }
    } catch {
      // Aborted.
    }
    told.push({ event: "closed", data: {} });
    wake();
  })();
  let read = 0;
  const next = async (fits: (each: Told) => boolean): Promise<Told> => {
    for (;;) {
      while (read < told.length) {
        const each = told[read++] as Told;
        if (fits(each)) return each;
        if (each.event === "closed") throw new Error("it has ended");
      }
      await new Promise<void>((woken) => (wake = woken));
    }
  };
  return { response, next };
}

const ask = (url: string) =>
  fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${KEY}`, "content-type": "application/json" },
    body: JSON.stringify({
      model: "slow",
      stream: true,
      messages: [{ role: "user", content: "a b c d e f g h i j k l" }],
    }),
  });

// At the same time: most of it is waiting for slow answers and for checks of tokens.
t.jobs = 4;
t.test("who has left while the session was looked up does not count as a watcher", async (t) => {
  const { base, ask: admin, gateway } = await startAdmin(t, WITH_TOKENS);
  const signedIn = await admin("POST", "/api/session", { body: { token: TOKEN } });
  const headers = { cookie: String(signedIn.headers["set-cookie"]).split(";", 1)[0] as string };
  const found = Promise.withResolvers<boolean>();
  let lookups = 0;
  gateway.stores.revokedSessions.has = () => {
    lookups++;
    return found.promise;
  };
  const leaving = new AbortController();
  const { signal } = leaving;
  const asked = Array.from({ length: 50 }, () => fetch(`${base}/api/live/events`, { headers, signal }).catch(() => {}));
  await until(() => lookups === 50, "all to be looked up");
  leaving.abort();
  await Promise.all(asked);
  await sleep(100);
  found.resolve(false);
  t.equal((await watch(t, base, headers)).response.status, 200);
});

t.test("a subscriber is notified when a request begins, changes and ends", async (t) => {
  const { base, url, ask: admin } = await startAdmin(t, YAML + KEYS);
  const { response, next } = await watch(t, base);
  t.match(response.headers.get("content-type"), "text/event-stream");
  t.match((await next(({ event }) => event === "live")).data, {
    running: 0,
    requests: { length: 0 },
    gone: { length: 0 },
  });
  t.match((await next(({ event }) => event === "now")).data, { running: 0, last_hour: {} });
  const asked = ask(url);
  const begun = await next(({ data }) => data.requests?.length === 1);
  const [request] = begun.data.requests;
  t.match(request, { model: "slow", name: "test", path: "/v1/chat/completions" });
  t.notOk("age" in request, "a value that grows by itself is not sent again and again");
  const more = await next(({ data }) => data.requests?.[0]?.bytes > (request.bytes ?? 0));
  t.equal(more.data.requests[0].id, request.id);
  t.notOk("model" in more.data.requests[0], "unchanged members are not sent again");
  t.equal((await admin("POST", `/api/live/${request.id}/cancel`, { body: {} })).status, 204);
  t.match((await next(({ data }) => data.gone?.length === 1)).data, { running: 0, gone: [request.id] });
  await (await asked).text().catch(() => {});
});

t.test("a new subscriber gets the state at once, or when the running query has ended", async (t) => {
  const subject = { askAll: async () => [] } as unknown as AdminGateway;
  const access = { onSignOut: () => () => {} } as unknown as Access;
  // The next look of itself would be tomorrow.
  const stream = new LiveStream(subject, access, new MemoryLog(), 86_400_000);
  t.teardown(() => stream.close());
  const come = () => {
    const response = Object.assign(new PassThrough(), { writeHead() {} });
    stream.serve({} as IncomingMessage, response as unknown as ServerResponse, {} as AdminUser);
    return response;
  };
  const told = async (response: PassThrough) => {
    for await (const piece of response) if (String(piece).includes("event: live")) return;
  };
  await Promise.all([come(), come()].map(told));
  await told(come());
});

t.test("running requests are sent while the ledger does not answer", async (t) => {
  const { base, url, gateway } = await startAdmin(t, YAML + KEYS);
  gateway.stores.ledger.sums = () => new Promise(() => {});
  const { next } = await watch(t, base);
  t.match((await next(({ event }) => event === "live")).data, { running: 0 });
  const asked = ask(url);
  t.match((await next(({ data }) => data.requests?.length === 1)).data, { running: 1 });
  await (await asked).body?.cancel();
});

t.test("a store that cannot tell whether a session was ended delays no stream, and fills no log", async (t) => {
  let looks = 0;
  let checks = 0;
  const subject = {
    askAll: async () => {
      looks++;
      return [];
    },
  } as unknown as AdminGateway;
  const access = {
    onSignOut: () => () => {},
    isStillAllowed: async () => {
      checks++;
      throw new Error("the store is away");
    },
  } as unknown as Access;
  const log = new MemoryLog();
  const stream = new LiveStream(subject, access, log, 1);
  t.teardown(() => stream.close());
  const response = Object.assign(new PassThrough(), { writeHead() {} });
  stream.serve({} as IncomingMessage, response as unknown as ServerResponse, {} as AdminUser);
  await until(() => checks > 3 && looks > 20);
  t.notOk(response.writableEnded);
  t.notMatch(JSON.stringify(log.lines), "the store is away");
});

t.test("the stream's last hour equals that of the API, with the gateway's own time", async (t) => {
  const { base, url, ask: admin, gateway } = await startAdmin(t, YAML + KEYS);
  const { body } = await ask(url);
  await body?.cancel();
  await until(async () => (await gateway.stores.ledger.recent(1)).length > 0);
  const { next } = await watch(t, base);
  const { errors, attempts, models, targets, overhead } = (await next(({ event }) => event === "hour")).data;
  const rows = async (path: string) => ((await admin("GET", `/api/${path}`)).body as { rows: unknown[] }).rows;
  t.same(errors, await rows("errors?since=1h"));
  t.equal(errors.length, 1);
  t.same(attempts, [], "no provider was called in vain");
  t.same(models, await rows("speed?since=1h&by=model"));
  t.same(targets, await rows("speed?since=1h&by=target"));
  t.equal(overhead.count, 1);
  // In whole milliseconds.
  t.ok(overhead.p50 >= 0 && overhead.p50 <= overhead.p95);
});

t.test("the stream continues over a reload, and reports the models of the new generation", async (t) => {
  const { base, url, folder, gateway } = await startAdmin(t, YAML + KEYS);
  const { next } = await watch(t, base);
  await next(({ event }) => event === "live");
  writeFileSync(join(folder, "gateway.yaml"), `${YAML}${KEYS}body: { limit: 1MiB }\n`);
  await gateway.reload();
  const asked = ask(url);
  t.match((await next(({ data }) => data.requests?.length === 1)).data.requests[0], { generation: 2 });
  await (await asked).body?.cancel();
});

t.test("the stream ends with its session, at once if that is signed out here", async (t) => {
  const { base, ask: admin } = await startAdmin(t, WITH_TOKENS);
  t.equal((await fetch(`${base}/api/live/events`)).status, 401);
  const { headers } = await admin("POST", "/api/session", { body: { token: VIEWER } });
  const cookie = (headers["set-cookie"] as string[])[0]?.split(";")[0] as string;
  const { next } = await watch(t, base, { cookie });
  await next(({ event }) => event === "live");
  await admin("DELETE", "/api/session", { headers: { cookie } });
  t.match((await next(({ event }) => event === "end")).data, { code: "signed_out" });
  await next(({ event }) => event === "closed");
});

t.test("the stream ends when its token is no longer valid", async (t) => {
  const yaml = WITH_TOKENS.replace("$ADMIN_TOKEN", "$file:./token");
  const { base, folder, gateway } = await startAdmin(t, yaml, {}, { token: TOKEN });
  const { next } = await watch(t, base, { authorization: `Bearer ${TOKEN}` });
  await next(({ event }) => event === "live");
  writeFileSync(join(folder, "token"), "other-token-0123456789abcdef");
  await gateway.reload();
  await next(({ event }) => event === "end");
});

t.test("the number of subscribers is limited", async (t) => {
  const { base } = await startAdmin(t, YAML);
  const all = await Promise.all(Array.from({ length: 50 }, () => watch(t, base)));
  t.equal(all.filter(({ response }) => response.status === 200).length, 50);
  t.equal((await fetch(`${base}/api/live/events`)).status, 429);
});
