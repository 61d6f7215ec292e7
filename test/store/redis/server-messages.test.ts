import t from "tap";
import { RedisRefusal } from "../../../src/store/redis/server.ts";
import { ServerMessages } from "../../../src/store/redis/server-messages.ts";

function recorded() {
  const lines: string[] = [];
  const messages = new ServerMessages(
    "redis.test:6379",
    (message) => lines.push(`warn ${message}`),
    (message) => lines.push(`info ${message}`),
  );
  return { lines, messages };
}

t.test("a loss says how this process counts meanwhile, and the end of it is reported", async (t) => {
  const { lines, messages } = recorded();
  messages.away(new Error("reset"), 1);
  messages.away(new Error("reset"), 3);
  messages.joined(true);
  messages.joined(false);
  t.match(lines, [
    /^warn .*redis\.test:6379.*\(reset\): this process counts alone/,
    /keeps to one part in 3 of what was left/,
    /^info .*is back/,
  ]);
  t.equal(lines.length, 3);
});

t.test("a refusal is reported once until the server is back; other errors are not", async (t) => {
  const { lines, messages } = recorded();
  messages.refused(new Error("away"));
  messages.refused(new RedisRefusal("no room"));
  messages.refused(new RedisRefusal("no room"));
  t.match(lines, [/^warn .*refuses: .*no room/]);
  messages.joined(false);
  messages.refused(new RedisRefusal("no room"));
  t.equal(lines.length, 2);
});

t.test("gateways of another version are reported when they come and when they have left", async (t) => {
  const { lines, messages } = recorded();
  for (const mixed of [false, true, true, false, false]) messages.versions(mixed);
  t.match(lines, [/^warn .*count apart/, /^info .*no more/]);
  t.equal(lines.length, 2);
});
