import t, { type Test } from "tap";
import { help, USAGE } from "../../src/cli/help/top.ts";
import { runTop } from "../../src/cli/top.ts";
import type { Terminal } from "../../src/cli/verb.ts";
import { startAdmin, TOKEN, VIEWER, WITH_TOKENS } from "../admin/support.ts";
import { asking } from "../support/key.ts";
import { captured, recordingTerminal } from "../support/terminal.ts";
import { until } from "../support/until.ts";
import { json, startVendor } from "../support/vendor.ts";

const LIVE = { id: "01a", age: 5300, name: "ci", model: "fast", target: "acme:m", state: "streaming", tokens: 2100 };

async function top(t: Test, url: string, ...args: string[]) {
  return topAs(t, "token-1", url, args);
}

function topAs(t: Test, token: string, url: string, args: readonly string[], signal?: AbortSignal) {
  const { hostname, port } = new URL(url);
  const run = (io: Terminal) => runTop(args, io, { host: hostname, port: Number(port) }, signal);
  return captured(run, { env: { ADMIN_TOKEN: token }, folder: t.testdirName });
}

t.test("live requests are a line each, and JSON has all of them", async (t) => {
  const admin = await startVendor(t, json({ requests: [LIVE, { id: "02", age: 10, state: "waiting" }] }));
  const { code, out } = await top(t, admin.url, "--once");
  t.equal(code, 0);
  t.match(out, /^2 running\n.*AGE/);
  t.match(out, /^5\.3 s +ci +fast +acme:m +streaming +2,100 +01a$/m);
  t.match(out, /^0\.0 s +- +- +- +waiting +- +02$/m);
  t.match(admin.requests, [{ url: "/api/live", headers: { authorization: "Bearer token-1" } }]);
  t.match(JSON.parse((await top(t, admin.url, "--json")).out), [LIVE, { id: "02" }]);
});

t.test("the gateway's own admin API is polled: running requests are shown until they have ended", async (t) => {
  const { url, base, gateway } = await startAdmin(t, WITH_TOKENS);
  const body = { model: "slow", stream: true, messages: [{ role: "user", content: "one two ".repeat(40) }] };
  const answer = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: asking(),
    body: JSON.stringify(body),
  });
  const id = answer.headers.get("x-request-id");
  t.match(await topAs(t, "wrong-token-0123456789", base, ["--once"]), { code: 1, err: /token/ });
  const { code, out } = await topAs(t, VIEWER, base, ["--once"]);
  t.equal(code, 0);
  t.match(out, new RegExp(`^1 running\n.*AGE.*\n *\\d+\\.\\d s +test +slow +demo:slow +streaming +\\S+ +${id} *$`));
  const [live] = JSON.parse((await topAs(t, TOKEN, base, ["--json"])).out);
  t.match(live, { id, name: "test", model: "slow", target: "demo:slow", state: "streaming", kind: "stream" });
  t.match(
    (await topAs(t, "", base, ["--once", "--token", TOKEN])).out,
    id,
    "the option takes precedence over the variable",
  );
  // Twice a second, until somebody ends it.
  const ending = new AbortController();
  const { io, lines: looks } = recordingTerminal({ env: { ADMIN_TOKEN: TOKEN } });
  let cleared = 0;
  const clear = () => void cleared++;
  const running = (count: number) => looks.filter((look) => look.startsWith(`${count} running`)).length;
  const { hostname, port } = new URL(base);
  const admin = { host: hostname, port: Number(port) };
  const watching = runTop([], { ...io, clear }, admin, ending.signal);
  await until(() => running(1) >= 2, "it to be shown more than once");
  gateway.cancel(id ?? "");
  await answer.text().catch(() => {});
  await until(() => running(0) > 0, "its end to be shown");
  ending.abort();
  t.equal(await watching, 0);
  t.equal(looks.at(-1), "0 running", "nothing after it");
  t.equal(cleared, looks.length);
});

t.test("no more requests are shown than the screen has lines for", async (t) => {
  const all = Array.from({ length: 30 }, (_, n) => ({ ...LIVE, id: `id${n}` }));
  const admin = await startVendor(t, json({ requests: all }));
  const { hostname, port } = new URL(admin.url);
  const { io, lines: looks } = recordingTerminal();
  const ending = new AbortController();
  const place = { host: hostname, port: Number(port) };
  const watching = runTop([], { ...io, rows: 10 }, place, ending.signal);
  await until(() => looks.length > 0, "a look");
  ending.abort();
  await watching;
  const lines = looks[0]?.split("\n") ?? [];
  t.equal(lines.length, 9);
  t.match(lines[0], /^30 running$/);
  t.match(lines[7], /id5$/);
  t.equal(lines[8], "and 24 younger ones");
  t.match((await top(t, admin.url, "--once")).out, /id29$/m);
});

t.test("an admin API that does not respond, or refuses the token, is reported with exit code 1", async (t) => {
  t.match(await top(t, (await startVendor(t, json({}, 401))).url, "--once"), { code: 1, err: /refuses this token/ });
  t.match(await top(t, (await startVendor(t, json({}, 404))).url, "--once"), { code: 1, err: /answers 404/ });
  t.match(await top(t, "http://127.0.0.1:1", "--once"), { code: 1, err: /no gateway answers at 127\.0\.0\.1:1/ });
  await t.rejects(runTop([], recordingTerminal().io, undefined), { message: /admin: is off/ });
  t.match(USAGE, /--token/);
  t.match(help, /^top /);
});
