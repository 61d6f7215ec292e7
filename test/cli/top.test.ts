import t, { type Test } from "tap";
import { help, run, USAGE } from "../../src/cli/top.ts";
import { json, startVendor } from "../support/vendor.ts";

const LIVE = { id: "01a", age: 5300, name: "ci", model: "fast", target: "acme:m", state: "streaming", tokens: 2100 };

async function top(t: Test, url: string, ...args: string[]) {
  const { hostname, port } = new URL(url);
  const out: string[] = [];
  const err: string[] = [];
  const io = {
    out: (line: string) => out.push(line),
    err: (line: string) => err.push(line),
    env: { ADMIN_TOKEN: "token-1" },
    folder: t.testdirName,
  };
  const code = await run(args, io, { host: hostname, port: Number(port) });
  return { code, out: out.join("\n"), err: err.join("\n") };
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

t.test("who does not answer, or wants a token, is told with exit code 1", async (t) => {
  t.match(await top(t, (await startVendor(t, json({}, 401))).url, "--once"), { code: 1, err: /wants a token/ });
  t.match(await top(t, (await startVendor(t, json({}, 404))).url, "--once"), { code: 1, err: /answers 404/ });
  t.match(await top(t, "http://127.0.0.1:1", "--once"), { code: 1, err: /no gateway answers at 127\.0\.0\.1:1/ });
  await t.rejects(run([], { out: t.fail, err: t.fail, env: {}, folder: "" }, undefined), { message: /admin: is off/ });
  t.match(USAGE, /--token/);
  t.match(help, /^top /);
});
