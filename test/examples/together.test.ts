import t from "tap";
import { CLIENTS, eventsOf } from "../support/four-clients.ts";
import { asking } from "../support/key.ts";
import { repeating } from "../support/repeating.ts";
import { startExamples } from "./example.ts";

t.test("a router, a redactor and a cache in one chain, each on the result of the one before it", async (t) => {
  const upstream = await repeating(t);
  const origin = upstream.origin.origin;
  const { url, gateway } = await startExamples(
    t,
    `providers:
  chat: { url: "${origin}/v1", speaks: [openai-chat] }
  messages: { url: "${origin}/v1", speaks: [anthropic-messages] }
models: { one: { targets: [chat:x] }, other: { targets: [messages:x] } }
`,
    "[sse, auth, route-by-team, redact, scrub, models, cache, rewrite, usage]",
    { "route-by-team": { teams: { blue: "one", red: "other" } }, redact: {}, cache: {} },
  );
  for (const [client, words] of Object.entries(CLIENTS))
    for (const stream of [true, false]) {
      const ask = async (team: string, address: string) => {
        const body = JSON.stringify(words.with(words.ask(`Write to ${address}.`, "f"), "auto", stream));
        const headers = asking({ "x-team": team });
        const response = await fetch(`${url}${words.path("auto", stream)}`, { method: "POST", headers, body });
        const text = await response.text();
        t.equal(response.status, 200, text);
        return stream ? words.streamed(eventsOf(text)) : words.read(JSON.parse(text)).text;
      };
      const row = async () => {
        await gateway.stores.ledger.flush();
        return (await gateway.stores.ledger.recent(1))[0]?.target;
      };
      const about = `${client}, ${stream ? "streamed" : "whole"}`;
      const before = upstream.seen.length;
      t.equal(await ask("blue", "me@home.org"), "You wrote: Write to me@home.org.", about);
      t.equal(await row(), "chat:x");
      t.match(upstream.seen.at(-1)?.body.toString(), "Write to <address-1>.", "the redactor's result");
      t.equal(await ask("blue", "you@work.org"), "You wrote: Write to you@work.org.", `${about}: with its own address`);
      t.equal(await row(), "answered by cache", "to the cache, which comes after the redactor, it was the same");
      t.equal(upstream.seen.length, before + 1);
      t.equal(await ask("red", "me@home.org"), "You wrote: Write to me@home.org.", about);
      t.equal(await row(), "messages:x", "the router's result");
    }
});

t.test("a shared cache in front of a redactor gives nobody the address of another caller", async (t) => {
  const upstream = await repeating(t);
  const { url } = await startExamples(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }\nmodels: { m: { targets: [up:x] } }\n`,
    "[sse, auth, models, cache, redact, rewrite, usage]",
    { cache: { shared: true }, redact: {} },
  );
  for (const stream of [false, true])
    for (const address of ["me@home.org", "you@work.org", "me@home.org"]) {
      const body = JSON.stringify({
        model: "m",
        stream,
        messages: [{ role: "user", content: `Write to ${address}.` }],
      });
      const response = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers: asking(), body });
      const text = await response.text();
      t.match(text, address);
      t.notMatch(text, address === "me@home.org" ? "work.org" : "home.org");
    }
  t.equal(upstream.seen.length, 4, "and each repeats its own");
});
