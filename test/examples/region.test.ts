import t from "tap";
import Region from "../../examples/region.ts";
import { drive } from "../../src/testing.ts";

const speaks = ["openai-chat", "openai-responses", "anthropic-messages", "gemini"];
const gateway = {
  retry: { wait: "10ms" },
  providers: { here: { url: "http://here.test", speaks }, there: { url: "http://there.test", speaks } },
  models: { any: { targets: ["there:x", "here:x"], fallback: ["far"] }, far: { targets: ["there:y"] } },
  keys: {
    test: { key: "test-key-0123456789abcdef", tags: { region: "eu" } },
    team: { key: "team-key-0123456789abcdef", group: "acme/research" },
    free: { key: "free-key-0123456789abcdef" },
  },
};
const options = { providers: { here: "eu", there: "us" }, groups: { acme: "us" } };

t.test("a caller's requests go to providers of its region, retries and fallbacks too", async (t) => {
  await using driven = await drive(Region, { options, gateway });
  for (const protocol of driven.protocols)
    for (const stream of [false, true]) {
      const about = `${protocol}, ${stream}`;
      for (let i = 0; i < 4; i++)
        t.match(await driven.ask({ protocol, stream }), { status: 200, sent: [{ url: /^http:\/\/here/ }] }, about);
      const failing = await driven.ask({ protocol, stream }, { status: 503, body: {} });
      t.ok(failing.sent.length > 0 && failing.sent.every(({ url }) => url.startsWith("http://here")), about);
      const refused = await driven.ask({ protocol, stream, model: "far" });
      t.match(refused, { status: 403, error: { code: "region_without_target" }, sent: { length: 0 } }, about);
    }
});

t.test("groups have regions too, and callers without one may use all, unless configured otherwise", async (t) => {
  const team = { protocol: "openai-chat", key: "team-key-0123456789abcdef" };
  const free = { protocol: "openai-chat", key: "free-key-0123456789abcdef", model: "far" };
  await using driven = await drive(Region, { options, gateway });
  t.match(await driven.ask(team), { sent: [{ url: /^http:\/\/there/ }] });
  t.match(await driven.ask(free), { status: 200 });
  await using strict = await drive(Region, { options: { ...options, otherwise: "eu" }, gateway });
  t.match(await strict.ask(free), { status: 403 });
});
