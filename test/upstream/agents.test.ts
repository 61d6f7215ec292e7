import { Agent as HttpsAgent } from "node:https";
import t from "tap";
import { Agents } from "../../src/upstream/agents.ts";

t.test("an account has an agent for each scheme, and shares it with nobody", async (t) => {
  const agents = new Agents({});
  const one = agents.get(new URL("http://a.test/x"), "one");
  t.equal(agents.get(new URL("http://b.test/"), "one"), one);
  t.not(agents.get(new URL("http://a.test/x"), "two"), one);
  t.notOk(one instanceof HttpsAgent);
  t.ok(agents.get(new URL("https://a.test/"), "one") instanceof HttpsAgent);
  agents.close();
});

t.test("a request that cannot be sent again has a connection of its own", async (t) => {
  const agents = new Agents({});
  const target = new URL("http://a.test/");
  t.equal(Reflect.get(agents.get(target, "one"), "keepAlive"), true);
  t.equal(Reflect.get(agents.get(target, "one", 0, false), "keepAlive"), false);
  agents.close();
});
