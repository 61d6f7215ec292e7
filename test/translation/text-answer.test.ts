import type { AccessExchange, Answer, Plugin, RequestExchange } from "model-gateway";
import t from "tap";
import { injectable } from "tsyringe";
import { drive } from "../../src/testing.ts";

const TEXT = 'We are "closed"\n\u{1f319}, until 8:00.';

@injectable()
class Closed implements Plugin {
  request(exchange: RequestExchange): void {
    exchange.answer = { text: TEXT, headers: { "x-closed": "yes" } };
  }
}

t.test(
  "a plugin's text is the answer of a conversation in every protocol, streamed or whole, and costs nothing",
  async (t) => {
    await using driven = await drive(Closed);
    t.ok(driven.protocols.length >= 4);
    for (const protocol of driven.protocols)
      for (const stream of [false, true]) {
        const about = `${protocol}, ${stream ? "streamed" : "whole"}`;
        const answer = await driven.ask({ protocol, stream });
        t.match(
          answer,
          { status: 200, text: TEXT, isComplete: true, outcome: "completed", sent: { length: 0 } },
          about,
        );
        t.equal(answer.events.length > 1, stream, about);
        t.equal(answer.headers["x-closed"], "yes", about);
        const [row] = await driven.ledger();
        t.match(row, { outcome: "completed", source: "free" }, about);
        t.match(JSON.stringify(row), /closed/, `${about}: the ledger says who answered`);
      }
  },
);

t.test("a completion is answered too, and an array of Gemini's", async (t) => {
  await using driven = await drive(Closed);
  const completion = { protocol: "openai-completions", body: { model: "any", prompt: "Hello" } };
  t.match((await driven.ask(completion)).json(), { object: "text_completion", choices: [{ text: TEXT }] });
  const array = await driven.ask({
    protocol: "gemini",
    stream: true,
    path: "/v1beta/models/any:streamGenerateContent",
  });
  t.match(array.headers, { "content-type": /^application\/json/ });
  const parts = (array.json() as { candidates?: { content?: { parts?: { text?: string }[] } }[] }[]).flatMap(
    ({ candidates }) => candidates?.[0]?.content?.parts ?? [],
  );
  t.equal(parts.map(({ text }) => text ?? "").join(""), TEXT);
});

t.test("a request that no model could read is refused before the text is encoded", async (t) => {
  await using driven = await drive(Closed);
  const refused = await driven.ask({ protocol: "openai-chat", body: { messages: 5 } });
  t.match(refused, { status: 400, error: { code: "invalid_field" } });
});

t.test("a text that cannot be an answer is its plugin's failure", async (t) => {
  const answers: [unknown, RegExp][] = [
    [{ text: 5 }, /text of an answer is a string/],
    [{ text: "a", status: 203 }, /no status or body/],
    [{ text: "a", body: "b" }, /no status or body/],
  ];
  for (const [answer, cause] of answers) {
    @injectable()
    class Wrong implements Plugin {
      request(exchange: RequestExchange): void {
        exchange.answer = answer as Answer;
      }
    }
    await using driven = await drive(Wrong);
    t.match(await driven.ask({ protocol: "openai-chat" }), { status: 500, error: { code: "plugin_failed" } });
    t.match(JSON.stringify(driven.log), cause);
  }
  await using driven = await drive(Closed);
  const embeddings = { protocol: "openai-embeddings", body: { model: "any", input: "Hello" } };
  t.match(await driven.ask(embeddings), { status: 500, error: { code: "plugin_failed", origin: "closed.answer" } });
  t.match(JSON.stringify(driven.log), /openai-embeddings is not answered with text: give a body/);
});

t.test("before the body has been received there is nothing that a text could answer", async (t) => {
  @injectable()
  class Early implements Plugin {
    access(exchange: AccessExchange): void {
      exchange.answer = { text: TEXT };
    }
  }
  await using driven = await drive(Early);
  t.match(await driven.ask({ protocol: "openai-chat" }), { status: 500, error: { code: "plugin_failed" } });
  t.match(JSON.stringify(driven.log), /answer in `request` or `route`/);
});
