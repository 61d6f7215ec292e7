import { once } from "node:events";
import { existsSync, linkSync, mkdtempSync, rmSync } from "node:fs";
import { request } from "node:http";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import t, { type Test } from "tap";
import { Admin, type AdminPlace, type Readiness } from "../../src/admin/admin.ts";

async function admin(t: Test, readiness: () => Readiness, place: AdminPlace = { host: "127.0.0.1", port: 0 }) {
  const side = new Admin(readiness);
  t.teardown(() => side.close());
  return side.listen(place);
}

const READY: Readiness = { ready: true, parts: { gateway: "ok" } };

t.test("it lives, and is ready as long as it is told so", async (t) => {
  let now: Readiness = READY;
  const url = await admin(t, () => now);
  const ask = async (path: string) => {
    const response = await fetch(url + path);
    return [response.status, await response.json()];
  };
  t.same(await ask("/livez"), [200, { live: true }]);
  t.same(await ask("/readyz?verbose"), [200, { ready: true, gateway: "ok" }]);
  now = { ready: false, parts: { gateway: "stopping" } };
  t.same(await ask("/readyz"), [503, { ready: false, gateway: "stopping" }]);
  t.same(await ask("/livez"), [200, { live: true }]);
});

t.test("there is nothing else yet", async (t) => {
  const url = await admin(t, () => READY);
  const other = await fetch(`${url}/metrics`);
  t.equal(other.status, 404);
  t.match(await other.json(), { paths: ["/livez", "/readyz"] });
  const written = await fetch(`${url}/readyz`, { method: "POST", body: "x" });
  t.same([written.status, written.headers.get("allow")], [405, "GET, HEAD"]);
});

t.test("it listens on a file too, also on one that a dead process left behind, but on nobody else's", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "gateway-admin-"));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const path = join(folder, "admin.sock");
  t.equal(await admin(t, () => READY, { path }), `unix:${path}`);
  const asked = request({ socketPath: path, path: "/livez" }).end();
  const [answer] = await once(asked, "response");
  t.match(await text(answer), /live/);
  await t.rejects(
    admin(t, () => READY, { path }),
    { code: "EADDRINUSE" },
  );
  const left = join(folder, "left.sock");
  const dead = createServer().listen(left);
  await once(dead, "listening");
  // What a killed process leaves: the file, and nobody behind it.
  linkSync(left, `${left}.kept`);
  dead.close();
  await once(dead, "close");
  t.ok(existsSync(`${left}.kept`));
  t.equal(await admin(t, () => READY, { path: `${left}.kept` }), `unix:${left}.kept`);
});
