import { createServer } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import t from "tap";
import { RedisRefusal, RedisServer, RedisUnavailable } from "../../../src/store/redis/server.ts";
import { freePort } from "../../support/free-port.ts";
import { startRedis } from "../../support/redis.ts";

const BEAT = ["{gateway}:", "", "a", "1000", "10", "0", "2000", "86400000"];

async function turns(count: number): Promise<void> {
  for (let n = 0; n < count; n++) await nextTurn();
}

t.test("a server that is not there, or does not respond: it is down, and queries fail in time", async (t) => {
  const port = await freePort();
  const nobody = await RedisServer.create(`redis://:secret@127.0.0.1:${port}`);
  const failed = await nobody.connect().catch((thrown: Error) => thrown);
  t.type(failed, RedisUnavailable);
  t.notMatch(String((failed as Error).message), /secret/);
  t.equal(nobody.address, `127.0.0.1:${port}`);
  await t.rejects(nobody.run("beat", ["{gateway}:"]), { name: "RedisUnavailable" });

  const sockets = new Set<{ destroy(): void }>();
  const silent = createServer((socket) => sockets.add(socket)).listen(0, "127.0.0.1");
  await new Promise((listening) => silent.once("listening", listening));
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    silent.close();
  });
  const { port: deaf } = silent.address() as { port: number };
  await t.rejects((await RedisServer.create(`redis://127.0.0.1:${deaf}`)).connect(), {
    message: /no reply within \d+ ms/,
  });
});

t.test("a command after the end of its connection fails with the reason of that end", async (t) => {
  const redis = await startRedis(t);
  if (!redis) return;
  const server = await RedisServer.create(redis.url);
  await server.connect();
  await redis.kill();
  for (let n = 0; n < 2; n++)
    await t.rejects(server.run("beat", BEAT), {
      ...{ name: "RedisUnavailable", message: /Socket closed unexpectedly|ECONNRESET/ },
    });
});

t.test("a reply that this process was late to read leaves no timer behind", async (t) => {
  const redis = await startRedis(t);
  if (!redis) return;
  const server = await RedisServer.create(redis.url);
  await server.connect();
  const timers = () => process.getActiveResourcesInfo().filter((kind) => kind === "Timeout").length;
  const before = timers();
  const asked = server.run("beat", BEAT);
  await turns(2);
  for (const began = performance.now(); performance.now() - began < 1100; );
  t.match(await asked, [/\w{12}/, 0, 1, 0]);
  await turns(3);
  t.equal(timers(), before);
  server.disconnect();
});

t.test("a refusal of the server is reported with its reason and advice", async (t) => {
  const redis = await startRedis(t, ["--requirepass", "right"]);
  if (!redis) return;
  const refusal = async (user: string, path = "") => {
    const thrown = await (await RedisServer.create(`redis://${user}127.0.0.1:${redis.port}${path}`))
      .connect()
      .catch((thrown: Error) => thrown);
    t.type(thrown, RedisRefusal, user);
    return (thrown as Error).message;
  };
  t.match(await refusal(""), /NOAUTH.*set user and password/);
  const wrong = await refusal(":wrong-one@");
  t.match(wrong, /WRONGPASS.*set user and password/);
  t.notMatch(wrong, /wrong-one/);
  t.match(await refusal(":right@", "/99"), /no database of that number/);
});

t.test("a server without TLS that is contacted with it is reported as such", async (t) => {
  const redis = await startRedis(t);
  if (!redis) return;
  await t.rejects((await RedisServer.create(redis.url.replace("redis:", "rediss:"))).connect(), {
    name: "RedisUnavailable",
    message: /no reply within \d+ ms; does it speak TLS\? redis:\/\/ does without$/,
  });
});

t.test("a Cluster node without the keys' slot is reported as such", async (t) => {
  const redis = await startRedis(t, ["--cluster-enabled", "yes"]);
  if (!redis) return;
  const server = await RedisServer.create(redis.url);
  await server.connect();
  await t.rejects(server.run("beat", BEAT), { message: /this is a Redis Cluster/ });
  server.disconnect();
});

t.test("a user with the documented rights can do everything, one without is told the missing right", async (t) => {
  const redis = await startRedis(t);
  if (!redis) return;
  await redis.ask("ACL", "SETUSER", "poor", "on", ">pw", "~other:*", "+@all");
  const poor = await RedisServer.create(redis.url.replace("//", "//poor:pw@"));
  await poor.connect();
  await t.rejects(poor.run("beat", BEAT), { message: /~\{gateway\}:\*/ });
  poor.disconnect();
  await redis.ask("ACL", "SETUSER", "gateway", "on", ">pw", "~{gateway}:*", "+@all", "-@dangerous", "+info");
  const enough = await RedisServer.create(redis.url.replace("//", "//gateway:pw@"));
  await enough.connect();
  t.match(await enough.run("beat", BEAT), [/\w{12}/, 0, 1, 0]);
  enough.disconnect();
});

t.test("scripts that the server has forgotten are sent again, and a pause ends in a timeout", async (t) => {
  const redis = await startRedis(t);
  if (!redis) return;
  const server = await RedisServer.create(redis.url);
  await server.connect();
  await redis.ask("SCRIPT", "FLUSH");
  t.match(await server.run("beat", BEAT), [/\w+/, 0, 1, 0]);
  redis.pause();
  await t.rejects(server.run("beat", BEAT, 50), { message: /no reply within \d+ ms/ });
  const unanswered = server.run("beat", BEAT, 60_000);
  server.disconnect();
  await t.rejects(unanswered, { name: "RedisUnavailable" }, "an unanswered command fails with the connection");
  redis.resume();
  await server.connect();
  t.ok(server.connected);
  server.disconnect();
});
