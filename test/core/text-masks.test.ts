import t from "tap";
import type { Plugin, RequestExchange, ResponseExchange } from "../../src/index.ts";
import { drive } from "../../src/testing.ts";

const NUMBER = { pattern: /\b\d{4}\b|\b\d{6}\b/g, maxLength: 6 };
const NAME = { pattern: /\bjan\b/i, maxLength: 3 };

/** Masks numbers of the user, then names, then all other numbers, and restores everything. */
class MaskBoth implements Plugin {
  async request(exchange: RequestExchange): Promise<void> {
    await exchange.maskText("number", { ...NUMBER, kinds: ["user"] });
    await exchange.maskText("a-name", NAME);
    await exchange.maskText("number", NUMBER);
  }

  response(exchange: ResponseExchange) {
    return exchange.unmaskResponseText("number", "a-name", "unused");
  }
}

/** Returns a plugin that masks once in its phase `request`. */
const masking = (mask: (exchange: RequestExchange) => void | Promise<void>) =>
  class implements Plugin {
    request(exchange: RequestExchange): void | Promise<void> {
      return mask(exchange);
    }
  };

t.test("texts are masked in several calls by several names, each once, and all are restored", async (t) => {
  await using driven = await drive(MaskBoth);
  for (const protocol of ["openai-chat", "openai-responses", "anthropic-messages", "gemini"])
    for (const stream of [false, true]) {
      const text = "1234, JAN and jan, 123456, 1234 of <number-1>, <a-name-7>, 12345.";
      const asked = { protocol, stream, text };
      const { sent, text: answer } = await driven.ask(asked, (seen) => seen.texts("user").at(-1) ?? "");
      t.equal(
        sent[0]?.texts("user").at(-1),
        "<number-1>, <a-name-1> and <a-name-2>, <number-2>, <number-1> of <number-3>, <a-name-3>, 12345.",
        protocol,
      );
      t.equal(answer, text, `${protocol}, ${stream ? "streamed" : "whole"}`);
    }
});

t.test("a call for other texts continues the numbers", async (t) => {
  await using driven = await drive(MaskBoth);
  const messages = [
    { role: "system", content: "4321 1234" },
    { role: "user", content: "1234" },
  ];
  const { sent } = await driven.ask({ protocol: "openai-chat", body: { messages } });
  t.same(sent[0]?.json().messages, [
    { role: "system", content: "<number-2> <number-1>" },
    { role: "user", content: "<number-1>" },
  ]);
});

t.test("a response without masks, and one to a request without matches, pass unchanged", async (t) => {
  await using driven = await drive(MaskBoth);
  for (const text of ["1234", "nothing"]) {
    const { text: answer } = await driven.ask({ protocol: "openai-chat", text }, () => "<number-9> <a-name-1> <x-1>");
    t.equal(answer, "<number-9> <a-name-1> <x-1>", text);
  }
});

t.test("a wrong name or pattern, and a call that nobody awaits, are failures of the plugin", async (t) => {
  const wrong = [
    [(exchange: RequestExchange) => exchange.maskText("Number 1", NUMBER), /letters a to z/],
    [(exchange: RequestExchange) => exchange.maskText("number", { ...NUMBER, maxLength: -1 }), /maxLength/],
    [(exchange: RequestExchange) => exchange.maskText("number", { pattern: "x" as never, maxLength: 1 }), /expression/],
    [(exchange: RequestExchange) => void exchange.maskText("number", NUMBER), /await/],
  ] as const;
  for (const [mask, why] of wrong) {
    await using driven = await drive(masking(mask));
    const { status, error, sent } = await driven.ask({ protocol: "openai-chat", text: "1234 ".repeat(20_000) });
    t.match(
      { status, error, sent },
      { status: 500, error: { code: "plugin_failed" }, sent: { length: 0 } },
      String(why),
    );
    t.match(JSON.stringify(driven.log), why);
  }
});
