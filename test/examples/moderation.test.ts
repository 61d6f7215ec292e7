import { createServer } from "node:http";
import t, { type Test } from "tap";
import Moderation from "../../examples/moderation.ts";
import { drive } from "../../src/testing.ts";
import { listen } from "../support/listen.ts";

/** An endpoint that flags what is bad, and never answers what is slow. */
async function endpoint(t: Test) {
  const seen: { input: string[]; token: string | undefined }[] = [];
  const server = createServer(async (request, response) => {
    const { input } = JSON.parse(Buffer.concat(await request.toArray()).toString()) as { input: string[] };
    seen.push({ input, token: request.headers.authorization });
    if (input.some((text) => text.includes("slow"))) return;
    response.end(JSON.stringify({ results: input.map((text) => ({ flagged: text.includes("bad") })) }));
  });
  return { seen, url: `http://127.0.0.1:${await listen(t, server)}/v1/moderations` };
}

t.test("nothing of a response is sent before it is checked, in every protocol, streamed or whole", async (t) => {
  const { url, seen } = await endpoint(t);
  await using driven = await drive(Moderation, {
    options: { url, token: "$TOKEN", seconds: 60 },
    env: { TOKEN: "judge" },
  });
  for (const protocol of driven.protocols)
    for (const model of ["any", "gemini"])
      for (const stream of [false, true]) {
        const about = `${protocol} → ${model}, ${stream ? "streamed" : "whole"}`;
        const good = await driven.ask({ protocol, model, stream, chunkBytes: 3 }, "A good answer.");
        t.match(good, { status: 200, text: "A good answer.", outcome: "completed" }, about);
        t.same(seen.at(-1), { input: ["A good answer."], token: "Bearer judge" }, about);
        const bad = await driven.ask({ protocol, model, stream, chunkBytes: 3 }, "A bad answer.");
        t.match(bad, { status: 403, error: { code: "moderated", origin: "moderation.response" } }, about);
        t.notMatch(bad.body.toString(), /answer\./, about);
      }
  const refused = await driven.ask({ protocol: "gemini" }, { status: 400, body: { error: {} } });
  t.equal(refused.status, 400, "an error of the provider's is not checked");
});

t.test("what a model writes into a call of a tool is checked too", async (t) => {
  const { url } = await endpoint(t);
  await using driven = await drive(Moderation, { options: { url, seconds: 60 } });
  for (const protocol of driven.protocols)
    for (const stream of [false, true]) {
      const call = (city: string) => driven.ask({ protocol, stream }, { call: { name: "f", arguments: { city } } });
      t.match(await call("good"), { status: 200, calls: [{ name: "f" }] }, protocol);
      t.match(await call("bad"), { status: 403, error: { code: "moderated" } }, protocol);
    }
});

t.test("an endpoint that does not respond takes its timeout, and then the configured default applies", async (t) => {
  const { url } = await endpoint(t);
  const asked = { protocol: "openai-chat", stream: true };
  await using driven = await drive(Moderation, { options: { url, seconds: 0.05 } });
  t.match(await driven.ask(asked, "slow"), { status: 503, error: { code: "moderation_silent" } });
  await using passing = await drive(Moderation, { options: { url, seconds: 0.05, silent: "pass" } });
  t.match(await passing.ask(asked, "slow"), { status: 200, text: "slow" });
  t.ok(passing.log.some(({ message }) => message === "moderation does not answer"));
});
