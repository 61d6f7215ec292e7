import t from "tap";
import Redact from "../examples/redact.ts";
import RouteByTeam from "../examples/route-by-team.ts";
import Stamp from "../examples/stamp.ts";
import { GatewayError } from "../src/core/errors.ts";
import type { Exchange } from "../src/core/exchange.ts";
import type { Plugin } from "../src/core/plugin.ts";
import { drive } from "../src/testing.ts";
import type { Member, Scan } from "../src/wire/members.ts";
import { type Edit, setMember } from "../src/wire/splice.ts";

t.test(
  "a plugin is tested in every protocol, streamed and whole, translated and not, however bytes are split",
  async (t) => {
    await using driven = await drive(Redact);
    t.same(driven.protocols, ["anthropic-messages", "gemini", "openai-chat", "openai-responses"]);
    for (const protocol of driven.protocols)
      for (const model of ["any", ...driven.protocols])
        for (const stream of [false, true])
          for (const cut of [undefined, 1, 7]) {
            const about = `${protocol} → ${model}, ${stream ? "streamed" : "whole"}, cut ${cut}`;
            const text = "Write to ann@example.com, please.";
            const answer = await driven.ask({
              protocol,
              model,
              stream,
              text,
              ...(cut === undefined ? {} : { chunkBytes: cut }),
            });
            t.equal(answer.status, 200, about);
            t.equal(answer.text, text, about);
            t.equal(answer.isComplete && answer.outcome, "completed", about);
            t.same(
              answer.sent.map((sent) => sent.texts("user")),
              [["Write to <address-1>, please."]],
              about,
            );
            t.equal(answer.sent[0]?.protocol, model === "any" ? protocol : model, about);
            if (stream) t.ok(answer.events.length > 1, about);
          }
  },
);

t.test(
  "the provider's script has text, reasoning and calls, differs by turn, and can depend on the request",
  async (t) => {
    await using driven = await drive(Stamp, { options: { text: "here" } });
    for (const protocol of driven.protocols) {
      const call = { name: "f", arguments: { city: "Rome" } };
      const called = await driven.ask({ protocol, stream: true }, { text: "Wait.", call });
      t.same([called.text, called.calls], ["Wait.", [{ name: "f", arguments: '{"city":"Rome"}' }]], protocol);
      const depending = await driven.ask({ protocol, system: "Be brief." }, (sent) => sent.texts("system").join());
      t.equal(depending.text, "Be brief.");
      t.equal(depending.headers["x-served-by"], "here");
    }
    const thinking = await driven.ask({ protocol: "openai-chat" }, { reasoning: "Hm.", text: "Yes.", tokens: [5, 2] });
    t.same([thinking.reasoning, thinking.text], ["Hm.", "Yes."]);
    t.match(thinking.json(), { usage: { prompt_tokens: 5, completion_tokens: 2 } });
    const again = await driven.ask({ protocol: "openai-chat" }, [
      { status: 503, body: { error: { message: "busy" } } },
      "Now.",
    ]);
    t.same([again.text, again.sent.length, again.headers["gateway-attempts"]], ["Now.", 2, "2"]);
    const refused = await driven.ask({ protocol: "openai-chat" }, { status: 400, body: { error: { message: "no" } } });
    t.match(refused, { status: 400, outcome: "upstream_error", text: "" });
  },
);

t.test("answers can be interrupted, and clients disconnect in the middle", async (t) => {
  await using driven = await drive(Stamp, { options: { text: "here" } });
  for (const protocol of driven.protocols) {
    const broken = await driven.ask({ protocol, stream: true, text: "x".repeat(300) }, { breakAfter: 900 });
    t.match(broken, { status: 200, outcome: "upstream_error", error: { code: "upstream_truncated" } }, protocol);
    const left = await driven.ask({ protocol, stream: true, text: "x".repeat(300), disconnectAfterBytes: 200 });
    t.match(left, { status: 200, isComplete: false, outcome: "aborted" }, protocol);
    const gone = await driven.ask({ protocol }, { breakAfter: 0 });
    t.match(gone, { status: 502, outcome: "upstream_error" }, protocol);
  }
});

t.test("bodies, headers, keys and paths can be set by the author", async (t) => {
  await using driven = await drive(Stamp, {
    options: { text: "here" },
    gateway: { keys: { other: { key: "$OTHER" }, test: { key: "first-key-0123456789abcdef" } } },
    env: { OTHER: "other-key-0123456789abcdef" },
  });
  const key = "other-key-0123456789abcdef";
  const embedded = await driven.ask(
    { protocol: "openai-embeddings", key, body: { input: "a" }, headers: { "x-own": "1" } },
    { body: { object: "list", data: [], model: "v", usage: { prompt_tokens: 1, total_tokens: 1 } } },
  );
  t.match(embedded.json(), { object: "list" });
  t.same(embedded.sent[0]?.json(), { model: "vendors-model", input: "a" });
  t.notMatch(JSON.stringify(embedded.sent[0]?.headers), /gateway-test|other-key/);
  const raw = await driven.ask({ protocol: "openai-chat", key, body: '{"model": "any", "n": ' });
  t.match(raw, { status: 400, outcome: "rejected", error: { code: "invalid_json" }, sent: { length: 0 } });
  t.match(await driven.ask({ protocol: "gemini", key: null }), { status: 401, error: { origin: "auth.access" } });
  t.match(await driven.ask({ protocol: "gemini", key, path: "/nowhere" }), { status: 404, outcome: undefined });
  t.match(await driven.ledger(), [{ status: 401 }, { status: 400 }, { status: 200, key: "other" }]);
});

t.test("a plugin that must follow another one is driven behind it, and its own path is asked with GET", async (t) => {
  /** Counts what requests have cost, and tells it on a path of its own. */
  class Spent implements Plugin {
    static after = ["usage"];
    private cost = 0;
    done: NonNullable<Plugin["done"]> = ({ charge }) => {
      this.cost += charge?.cost ?? 0;
    };
    serve: NonNullable<Plugin["serve"]> = ({ method }) => ({ body: JSON.stringify({ method, cost: this.cost }) });
  }
  await using driven = await drive(Spent, {
    gateway: {
      models: { any: { targets: ["any:priced"], price: { input: 10, output: 10 } } },
      paths: { "/spent": { serve: "spent", use: ["auth"] } },
    },
  });
  await driven.ask({ protocol: "gemini" }, { text: "Yes.", tokens: [60, 40] });
  const told = await driven.ask({ protocol: "openai-chat", method: "GET", path: "/spent" });
  t.same([told.status, told.json()], [200, { method: "GET", cost: 1_000_000 }]);
  const models = await driven.ask({ protocol: "openai-chat", method: "GET", path: "/v1/models" });
  t.equal(models.json().data[0].id, "any");
  t.equal((await driven.ask({ protocol: "openai-chat", method: "DELETE" })).status, 405);
});

t.test("keys, models and providers of the author are used beside those of the test", async (t) => {
  await using driven = await drive(Stamp, {
    options: { text: "here" },
    gateway: {
      keys: { other: { key: "other-key-0123456789abcdef" } },
      providers: { own: { url: "demo:" } },
      models: { mine: { targets: ["own:echo"] } },
    },
  });
  t.match(await driven.ask({ protocol: "openai-chat" }), { status: 200 }, "the usual key and model");
  t.match(await driven.ask({ protocol: "openai-chat", key: "other-key-0123456789abcdef" }), { status: 200 });
  t.match(await driven.ask({ protocol: "openai-chat", model: "mine", text: "hello" }), {
    status: 200,
    sent: { length: 1 },
  });
  t.match(await driven.ledger(), [{ key: "test", model: "mine" }, { key: "other", model: "any" }, { key: "test" }]);
});

t.test("phases, failures, the log and the plugin itself are accessible", async (t) => {
  class Counting implements Plugin {
    ended: string[] = [];
    closed = 0;
    request(exchange: Pick<Exchange, "headers">): void {
      if (exchange.headers.get("x-refuse")) throw new GatewayError("not_now", { status: 409, message: "Not now." });
      if (exchange.headers.get("x-fail")) throw new Error("broken");
    }
    done({ outcome }: Pick<Exchange, "outcome">): void {
      this.ended.push(outcome);
    }
    close(): void {
      this.closed++;
    }
  }
  const driven = await drive(Counting, { name: "counting" });
  const protocol = "anthropic-messages";
  await driven.ask({ protocol });
  const refused = await driven.ask({ protocol, headers: { "x-refuse": "1" } });
  t.match(refused, { status: 409, outcome: "rejected", error: { code: "not_now", origin: "counting.request" } });
  t.match(await driven.ask({ protocol, headers: { "x-fail": "1" } }), {
    status: 500,
    error: { code: "plugin_failed" },
  });
  t.same((driven.plugin as Counting).ended, ["completed", "rejected", "failed"]);
  t.ok(driven.log.some(({ fields }) => /counting\.request/.test(JSON.stringify(fields))));
  await driven.close();
  t.equal((driven.plugin as Counting).closed, 1);
});

t.test("many requests run concurrently, each with its own script", async (t) => {
  await using driven = await drive(Redact);
  const texts = Array.from({ length: 40 }, (_, i) => `mail${i}@example.com is number ${i}`);
  const answers = await Promise.all(
    texts.map((text, i) =>
      driven.ask({ protocol: driven.protocols[i % 4] as string, stream: i % 3 === 0, text }, text),
    ),
  );
  t.same(
    answers.map(({ text }) => text),
    texts,
  );
});

t.test("what cannot be driven is reported before a request is sent", async (t) => {
  await t.rejects(drive(Stamp, { options: { txet: "here" } }), /text/, "options are checked by the class's schema");
  await t.rejects(drive(Redact, { chain: ["redact", "auth", "models", "rewrite"] }), /auth/, "and so is its place");
  class Idle {}
  await t.rejects(drive(Idle as never), /fills no phase/);
  await using driven = await drive(RouteByTeam, { options: { teams: { a: "any" } } });
  await t.rejects(
    driven.ask({ protocol: "smoke-signals" }),
    /There is no protocol "smoke-signals"; there are .*gemini/,
  );
  await t.rejects(driven.ask({ protocol: "openai-embeddings" }), /not made of text: give its body/);
  await t.rejects(driven.ask({ protocol: "gemini", model: "any" }, { status: 500 }), /needs a body/);
  const routed = await driven.ask({ protocol: "openai-chat", model: "auto", headers: { "x-team": "a" } });
  t.match(
    [routed.sent[0]?.url, routed.sent[0]?.json().model],
    ["http://any.test/v1/chat/completions", "vendors-model"],
  );
});

t.test("what would be ignored, or cannot be sent piece by piece, is an error of the author's", async (t) => {
  const chains = { llm: ["auth", "models"] };
  await t.rejects(drive(Redact, { gateway: { chains } }), /chains.llm: give it as chain/);
  await t.rejects(drive(Redact, { gateway: { plugins: { redact: {} } } }), /plugins.redact: give it as options/);
  await using driven = await drive(Redact);
  for (const chunkBytes of [0, Number.NaN])
    await t.rejects(driven.ask({ protocol: "openai-chat", chunkBytes }), RangeError);
});

t.test("values of a plugin that cannot be sent end their request with a response", async (t) => {
  class Unsendable implements Plugin {
    access: NonNullable<Plugin["access"]> = ({ headers, replyHeaders }) => {
      const value = headers.get("x-value");
      if (value === "status") throw new GatewayError("own", { status: 0, message: "No." });
      if (value !== undefined) replyHeaders.push("x-good", "yes", "x-bad", "€");
      if (value === "with an error") throw new GatewayError("own", { status: 402, message: "No." });
    };
  }
  await using driven = await drive(Unsendable);
  for (const protocol of driven.protocols) {
    const ask = (value: string) => driven.ask({ protocol, headers: { "x-value": value } });
    for (const value of ["status", "header"]) {
      const failed = await ask(value);
      t.match(failed, { status: 500, error: { code: "plugin_failed", origin: "unsendable.access" } }, value);
      t.equal(failed.headers["x-good"], undefined);
    }
    // What was thrown counts, and the headers are left out.
    const refused = await ask("with an error");
    t.match(refused, { status: 402, error: { code: "own", origin: "unsendable.access" } });
    t.equal(refused.headers["x-good"], undefined);
    t.match(
      driven.log.find(
        ({ message, fields }) => message.includes("reply headers") && fields["id"] === refused.headers["x-request-id"],
      ),
      { level: "warn", fields: { cause: "TypeError: The header x-bad has a value that cannot be sent." } },
    );
    t.equal((await driven.ask({ protocol })).status, 200);
  }
});

t.test("an edit that leaves invalid JSON is a failure of the plugin that made it", async (t) => {
  const WRONG: Record<string, (body: Exchange["body"]) => Edit[]> = {
    "a new member": ({ scan }) => [setMember(scan as Scan, "note", "{")],
    "a member's value": ({ scan }) => {
      const { start, end } = scan?.members[0] as Member;
      return [{ start, end, bytes: Buffer.from(`"${"x".repeat(300)}\n"`) }];
    },
    "a part of a value": ({ length }) => [{ start: length - 1, end: length, bytes: Buffer.from("]") }],
    "bytes in a long text": (body) => {
      const at = body.bytes().indexOf("y".repeat(300));
      return [{ start: at + 290, end: at + 291, bytes: Buffer.from("\n") }];
    },
    "bytes that are no text": ({ scan }) => {
      const { start, end } = scan?.members[0] as Member;
      return [{ start, end, bytes: Buffer.from([0x22, 0xff, 0x22]) }];
    },
  };
  class Wrong implements Plugin {
    request: NonNullable<Plugin["request"]> = (exchange) => this.act("request", exchange.headers.get("x-at"), exchange);
    send: NonNullable<Plugin["send"]> = (exchange, attempt) => this.act("send", exchange.headers.get("x-at"), attempt);

    private act(phase: string, wanted = "", changed: Pick<Exchange, "body" | "edit">): void {
      const [at, how = ""] = wanted.split(": ");
      if (at === phase) changed.edit(WRONG[how]?.(changed.body) ?? []);
    }
  }
  await using driven = await drive(Wrong);
  for (const protocol of driven.protocols)
    for (const model of ["any", protocol === "gemini" ? "openai-chat" : "gemini"])
      for (const at of ["request", "send"])
        for (const how of Object.keys(WRONG)) {
          const text = "y".repeat(300);
          const failed = await driven.ask({ protocol, model, text, headers: { "x-at": `${at}: ${how}` } });
          const about = `${how} in ${at}, ${protocol} → ${model}`;
          t.match(failed, { status: 500, error: { code: "plugin_failed", origin: `wrong.${at}` } }, about);
          t.same(failed.sent, [], about);
        }
});

t.test("an invalid error of a plugin is its failure, and the client gets a response", async (t) => {
  class Junk implements Plugin {
    response: NonNullable<Plugin["response"]> = (exchange) => {
      if (exchange.headers.get("x-at") === "response") Object.assign(exchange, { error: 5 });
    };
    done: NonNullable<Plugin["done"]> = (exchange) => {
      if (exchange.headers.get("x-at") === "done") Object.assign(exchange, { error: new Error("own") });
    };
  }
  await using driven = await drive(Junk);
  for (const stream of [false, true]) {
    const failed = await driven.ask({ protocol: "openai-chat", stream, headers: { "x-at": "response" } });
    t.match(failed, { status: 500, error: { code: "plugin_failed", origin: "junk.response" } });
    t.match(await driven.ask({ protocol: "openai-chat", stream, headers: { "x-at": "done" } }), { isComplete: true });
    t.match(driven.log.at(-2), { message: "a plugin failed to record", fields: { origin: "junk.done" } });
  }
});

t.test("invalid usage and charges of a plugin affect its own request at most, which is recorded", async (t) => {
  const JUNK: Record<string, unknown> = {
    null: null,
    "a number": 5,
    "a text": "5 tokens",
    "no parts": {},
    "parts that are none": { in: 5, out: null },
    "a big integer": { in: { total: 5n }, out: {} },
    "counts that are none": { in: { write: 5 }, out: { total: "5" } },
  };
  class Junk implements Plugin {
    response: NonNullable<Plugin["response"]> = (exchange) => {
      this.act("response", exchange);
      return ({ kind }) => (kind === "end" ? this.act("stage", exchange) : undefined);
    };
    done: NonNullable<Plugin["done"]> = (exchange) => {
      this.act("done", exchange);
      const [at, how = ""] = exchange.headers.get("x-at")?.split(": ") ?? [];
      if (at === "members" && exchange.usage) Object.assign(exchange.usage, { in: null, out: {} }, JUNK[how]);
      if (at === "charge") Object.assign(exchange, { charge: JUNK[how] });
    };
    private act(phase: string, exchange: { headers: Exchange["headers"] }): void {
      const [at, how = ""] = exchange.headers.get("x-at")?.split(": ") ?? [];
      if (at === phase) Object.assign(exchange, { usage: JUNK[how] });
    }
  }
  await using driven = await drive(Junk, { gateway: { limits: { default: { tpm: "10M" } } } });
  for (const stream of [false, true])
    for (const at of ["response", "stage", "done", "members", "charge"])
      for (const how of Object.keys(JUNK)) {
        const about = `${how} in ${at}${stream ? ", streamed" : ""}`;
        const answer = await driven.ask(
          { protocol: "openai-chat", stream, headers: { "x-at": `${at}: ${how}` } },
          { text: "Yes.", tokens: [5, 2] },
        );
        const log = JSON.stringify(driven.log.filter(({ fields }) => fields["id"] === answer.headers["x-request-id"]));
        t.match(log, at === "response" || at === "stage" ? `"origin":"junk.response"` : `"origin":"junk.done"`, about);
        const [row] = await driven.ledger();
        t.equal(row?.id, answer.headers["x-request-id"], about);
        if (at === "response") t.equal(answer.status, 500, about);
        else if (at !== "stage") t.match(answer, { status: 200, text: "Yes.", isComplete: true }, about);
        if (at === "done" || at === "charge")
          t.match(row, { source: "reported", usage: { in: { total: 5 }, out: { total: 2 } } }, about);
      }
  t.match(await driven.ask({ protocol: "openai-chat" }), { status: 200, outcome: "completed" });
});
