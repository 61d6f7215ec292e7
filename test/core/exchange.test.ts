import t from "tap";
import { Body } from "../../src/core/body.ts";
import { AWAITED_RESPONSE, Exchange, type ExchangeStart } from "../../src/core/exchange.ts";
import type { Head } from "../../src/core/head.ts";
import type { Plugin } from "../../src/core/plugin.ts";
import type { Protocol } from "../../src/core/protocol.ts";
import type { Stage } from "../../src/core/stage.ts";
import type { ResponseExchange } from "../../src/index.ts";
import { drive } from "../../src/testing.ts";
import type { Member, Scan } from "../../src/wire/json.ts";
import { setMember } from "../../src/wire/splice.ts";
import { SPEAKS_TEXT } from "../support/speaks-text.ts";

const exchange = (): Exchange => new Exchange({ id: "one", arrivedAt: performance.now() } as ExchangeStart);

t.test("listeners are called once, in order, when the client disconnects", async (t) => {
  const one = exchange();
  const heard: string[] = [];
  one.onAbort(() => heard.push("first"));
  one.onAbort(() => heard.push("second"));
  t.same([one.aborted, heard], [false, []]);
  one.abort();
  one.abort();
  t.same([one.aborted, heard], [true, ["first", "second"]]);
});

t.test("an unsubscribed listener is not called, and the others are", async (t) => {
  const one = exchange();
  const heard: string[] = [];
  const back = one.onAbort(() => heard.push("taken back"));
  one.onAbort(() => heard.push("kept"));
  back();
  back();
  one.abort();
  back();
  t.same(heard, ["kept"]);
});

t.test("a function registered twice is unsubscribed once for each", async (t) => {
  const one = exchange();
  let heard = 0;
  const leave = () => void heard++;
  const back = one.onAbort(leave);
  one.onAbort(leave);
  back();
  one.abort();
  t.equal(heard, 1);
});

t.test("a listener that is registered after the client has left is called at once", async (t) => {
  const one = exchange();
  one.abort();
  let heard = 0;
  const back = one.onAbort(() => heard++);
  t.equal(heard, 1);
  back();
  t.equal(heard, 1);
});

t.test("a listener may register another one, which is called at once too", async (t) => {
  const one = exchange();
  const heard: string[] = [];
  one.onAbort(() => {
    heard.push("outer");
    one.onAbort(() => heard.push("inner"));
  });
  one.abort();
  t.same(heard, ["outer", "inner"]);
});

t.test("the signal is always the same object, and fires when the client disconnects", async (t) => {
  const one = exchange();
  const { signal } = one;
  t.equal(one.signal, signal);
  t.notOk(signal.aborted);
  let fired = 0;
  signal.addEventListener("abort", () => fired++);
  one.abort();
  t.ok(signal.aborted);
  t.equal(fired, 1);
});

t.test("a signal that is requested too late has fired already", async (t) => {
  const one = exchange();
  one.abort();
  t.ok(one.signal.aborted);
});

t.test("elapsed counts from arrival", async (t) => {
  const one = new Exchange({ arrivedAt: performance.now() - 1000 } as ExchangeStart);
  t.ok(one.elapsed >= 1000);
});

const asked = (body: string, arrival: Partial<ExchangeStart> = {}): Exchange => {
  const made = new Exchange({ operation: {}, protocol: {}, ...arrival } as ExchangeStart);
  made.receive(new Body([Buffer.from(body)], "json"));
  return made;
};
const put = (name: string, json: string) => (exchange: Exchange) =>
  exchange.edit([setMember(exchange.body.scan as Scan, name, json)]);

t.test("all members are validated completely except the protocol's long ones", async (t) => {
  const protocol = { longMembers: ["messages"] } as unknown as Protocol;
  const body = (name: string) => `{"model":"m","${name}":"${"x".repeat(300)}\n"}`;
  t.throws(() => asked(body("label"), { protocol }), { code: "invalid_json", param: "label" });
  t.equal(asked(body("messages"), { protocol }).requestedModel, "m");
  t.throws(() => asked(body("messages")), { code: "invalid_json" }, "without a limit in the protocol, no body is long");
});

t.test("each edit is applied to the result of the previous one", async (t) => {
  const one = asked('{"messages":["me@home"],"model":"a"}');
  const { body } = one;
  put("messages", '["<address>"]')(one);
  t.same(one.body.value("messages"), ["<address>"]);
  one.edit([{ ...(one.body.member("messages") as Member), bytes: Buffer.from('["Be brief.","<address>"]') }]);
  t.same(one.body.json(), { messages: ["Be brief.", "<address>"], model: "a" });
  t.equal(body.bytes().toString(), '{"messages":["me@home"],"model":"a"}', "holders of the old one still have it");
  t.throws(() => put("n", "{")(one), { code: "plugin_failed" });
});

t.test("another model in the body is another requested model; its position may differ", async (t) => {
  const one = asked('{"model":"dear"}');
  t.equal(one.requestedModel, "dear");
  put("model", '"cheap"')(one);
  t.equal(one.requestedModel, "cheap");
  one.requestedModel = "routed";
  put("n", "1")(one);
  t.equal(one.requestedModel, "routed", "a plugin's decision stays");
  t.throws(() => put("model", "1")(one), { code: "plugin_failed" }, "the client is not to blame");
  t.throws(() => put("model", '""')(one), { code: "invalid_field" }, "a name may be the client's");
  const other = asked("{}", { pathModel: "named" });
  put("model", '"body"')(other);
  t.equal(other.requestedModel, "named");
});

t.test("nothing but targets can be set as those of a request", async (t) => {
  const one = asked('{"model":"dear"}');
  for (const wrong of [["provider:model"], [undefined], "provider:model", undefined])
    t.throws(() => Object.assign(one, { targets: wrong }), TypeError);
  t.same(one.targets, []);
});

const UNDELIVERED = { endIfDelivered: () => false, push: () => false };

t.test("a client that disconnects once it has all of a response has not left it", async (t) => {
  const one = exchange();
  const heard: string[] = [];
  one.drain = true;
  one.onAbort(() => heard.push("abort"));
  one.activeResponse = { ...UNDELIVERED, drain: () => heard.push("read on") > 0, endIfDelivered: () => true };
  one.abort();
  t.same([one.aborted, heard], [false, []]);
});

t.test(
  "if a plugin needs the rest of a response, a client that disconnects does not end it, but an interruption does",
  async (t) => {
    const one = exchange();
    const heard: string[] = [];
    one.drain = true;
    one.onAbort(() => heard.push("abort"));
    one.activeResponse = { drain: (brief) => heard.push(`read on ${brief}`) > 0, ...UNDELIVERED };
    one.abort();
    t.same([one.aborted, heard], [true, ["read on false"]]);
    one.interrupt();
    t.same(heard, ["read on false", "abort"]);
  },
);

t.test("if only an end is needed, the response reports whether it has been reached", async (t) => {
  for (const ends of [true, false]) {
    const one = exchange();
    const heard: string[] = [];
    one.drain = "end";
    one.onAbort(() => heard.push("abort"));
    one.activeResponse = { drain: (brief) => heard.push(`read on ${brief}`) > 0 && ends, ...UNDELIVERED };
    one.abort();
    t.same(heard, ends ? ["read on true"] : ["read on true", "abort"]);
  }
});

t.test("the rest of a response is read if all of it is needed, not if only an end is", async (t) => {
  for (const drain of [true, "end"] as const) {
    const one = exchange();
    const heard: string[] = [];
    one.drain = drain;
    one.onAbort(() => heard.push("before"));
    one.activeResponse = AWAITED_RESPONSE;
    one.abort();
    one.onAbort(() => heard.push("after"));
    t.same(
      [one.aborted, one.signal.aborted, heard],
      drain === true ? [true, false, []] : [true, true, ["before", "after"]],
    );
  }
});

t.test("before a response begins there is no rest of it", async (t) => {
  const one = exchange();
  const heard: string[] = [];
  one.drain = true;
  one.onAbort(() => heard.push("abort"));
  one.abort();
  t.same(heard, ["abort"]);
});

t.test("an edit of the body while texts of it are replaced is an error: its places no longer fit", async (t) => {
  const one = asked('{"model":"m","t":[{"k":"user","d":"me@home"}]}', { protocol: SPEAKS_TEXT });
  const match = { pattern: /\w+@home/, maxLength: 20 };
  await one.replaceText(match, () => "<address>");
  t.equal(one.body.bytes().toString(), '{"model":"m","t":[{"k":"user","d":"<address>"}]}');
  const replaced = one.replaceText({ pattern: /<address>/, maxLength: 9 }, () => "me");
  one.mapText(["user"], () => "you");
  await t.rejects(replaced, /body was changed while/);
  t.equal(one.body.bytes().toString(), '{"model":"m","t":[{"k":"user","d":"you"}]}');
});

t.test("stages before and after the translation read texts in the protocol of their frames", async (t) => {
  const found: Record<string, string[]> = {};
  const reading = (place: string) =>
    class implements Plugin {
      response(exchange: ResponseExchange): Stage {
        const pieces: Buffer[] = [];
        let text = "";
        return (frame) => {
          for (const span of exchange.responseTexts(frame, ["assistant"])) if (span.piece) text += span.text;
          if (frame.kind !== "end") return void pieces.push(Buffer.from(frame.bytes));
          const whole = exchange.completeResponseTexts(Buffer.concat(pieces), ["assistant"]);
          found[place] = [text, whole.map((span) => span.text).join("|")];
        };
      }
    };
  for (const place of ["rewrite", "usage"]) {
    const Reading = Object.assign(reading(place), {
      before: [place],
      ...(place === "usage" && { after: ["rewrite"] }),
    });
    await using driven = await drive(Reading, { name: "reading" });
    for (const protocol of driven.protocols)
      for (const model of driven.protocols) {
        await driven.ask({ protocol, model, stream: true }, "Hello there");
        t.same(found[place], ["Hello there", "Hello there"], `${protocol} at ${model}, before ${place}`);
      }
  }
});

t.test(
  "a plugin that does not await the whole response has failed, and what it has taken is not lost unseen",
  async (t) => {
    class Hasty implements Plugin {
      response(_: unknown, head: Head): void {
        void head.readBody?.(1000);
      }
    }
    await using driven = await drive(Hasty, { name: "hasty" });
    for (const model of ["openai-chat", "gemini"]) {
      const { status, error } = await driven.ask({ protocol: "openai-chat", model, stream: true }, "Hello there");
      t.same([status, error?.origin], [500, "hasty.response"], model);
    }
  },
);

t.test("what is done to texts may be awaited later than it fails, as when the client has left meanwhile", async (t) => {
  const one = asked('{"model":"m","t":[{"k":"user","d":"me@home"}]}', { protocol: SPEAKS_TEXT });
  const match = { pattern: /\w+@home/, maxLength: 20, kinds: ["none"] as never };
  const doing = [one.findText(match), one.maskText("a", match), one.replaceText(match, () => "")];
  // A rejection that nobody handles would end the process.
  await new Promise((later) => setTimeout(later, 1));
  for (const done of doing) await t.rejects(done as Promise<unknown>, /no texts of the kind/);
});
