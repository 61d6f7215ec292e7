import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import t from "tap";
import type { TranslatedProtocol } from "../../src/translation/codec.ts";
import { Envelopes } from "../../src/translation/envelope.ts";
import {
  type ClientRequest,
  readRequest,
  readRequestInSteps,
  writeRequest,
  writeRequestInSteps,
} from "../../src/translation/request.ts";
import {
  endsStep,
  LARGE_BODY_BYTES,
  oneAtATime,
  runAtOnce,
  runBriefly,
  runInTurns,
  type Steps,
  writeJsonInSteps,
} from "../../src/translation/steps.ts";
import { RawJson, writeJson } from "../../src/wire/exact.ts";
import { SAY } from "../support/tiny.ts";
import { SPOKEN } from "../support/translations.ts";
import { until } from "../support/until.ts";
import { PROTOCOLS, type ProtocolName } from "../support/vendor-sdks.ts";

function* counting(to: number, fails = false): Steps<number> {
  let sum = 0;
  for (let n = 0; n < to; n++) {
    sum += n;
    if (endsStep(n)) yield;
  }
  if (fails) throw new RangeError("at the end");
  return sum;
}

t.test("steps have the same result at once and in turns, of which others have as many", async (t) => {
  let turns = 0;
  const turn = async () => void turns++;
  const sum = (5000 * 4999) / 2;
  t.equal(runAtOnce(counting(5000)), sum);
  t.equal(await runInTurns(counting(5000), turn), sum);
  t.equal(turns, 9);
  t.equal(await runInTurns(counting(100), turn), 4950);
  t.equal(turns, 9, "few elements are one step");
  t.throws(() => runAtOnce(counting(5000, true)), { message: "at the end" });
  await t.rejects(runInTurns(counting(5000, true)), { message: "at the end" });
});

t.test("the event loop turns between two steps", async (t) => {
  let turned = 0;
  const steps = (function* () {
    const seen: number[] = [];
    for (let n = 0; n < 3; n++) {
      seen.push(turned);
      setImmediate(() => turned++);
      yield;
    }
    return seen;
  })();
  t.same(await runInTurns(steps), [0, 1, 2]);
});

t.test("few or quick steps run at once, and many that take long in turns", async (t) => {
  let turns = 0;
  const turn = async () => void turns++;
  const slow = function* (count: number): Steps<string> {
    for (let n = 0; n < count; n++) {
      const began = performance.now();
      while (performance.now() - began < 2);
      yield;
    }
    return "done";
  };
  t.equal(runBriefly(slow(10), turn), "done");
  t.equal(turns, 0);
  const rest = runBriefly(slow(20), turn);
  t.ok(rest instanceof Promise);
  t.equal(await rest, "done");
  t.equal(turns, 4, "one behind each of the last");
  await t.rejects(async () =>
    runBriefly(
      (function* () {
        yield* slow(20);
        throw new RangeError("at the end");
      })(),
      turn,
    ),
  );
});

t.test("work on large bodies is done one at a time, also behind work that has failed", async (t) => {
  const order: string[] = [];
  const work = (name: string, fails = false) =>
    oneAtATime(LARGE_BODY_BYTES, async () => {
      order.push(`${name} begins`);
      await runInTurns(counting(5000, fails)).finally(() => order.push(`${name} ends`));
      return name;
    });
  const all = await Promise.allSettled([work("one"), work("two", true), work("three")]);
  t.match(all, [{ value: "one" }, { reason: { message: "at the end" } }, { value: "three" }]);
  t.same(
    order,
    ["one", "two", "three"].flatMap((name) => [`${name} begins`, `${name} ends`]),
  );
});

t.test("work on a large body does not wait for that on a huge one, which may take seconds", async (t) => {
  const huge = Promise.withResolvers<string>();
  const begun = oneAtATime(64 << 20, () => huge.promise);
  t.equal(await oneAtATime(LARGE_BODY_BYTES, async () => "large"), "large");
  huge.resolve("huge");
  t.equal(await begun, "huge");
});

t.test("the result of such work is not kept", async () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const answers: WeakRef<object>[] = [];
  for (const bytes of [LARGE_BODY_BYTES, 64 << 20])
    await oneAtATime(bytes, async () => {
      const answer = {};
      answers.push(new WeakRef(answer));
      return answer;
    });
  await until(() => {
    collect();
    return answers.every((answer) => answer.deref() === undefined);
  }, "the end of both answers");
});

const COUNT = 4000;
const role = (i: number) => (i % 2 ? "assistant" : "user");
const said = Array.from({ length: COUNT }, (_, i) => ({ role: role(i), content: `number ${i}` }));
const LONG: Record<ProtocolName, object> = {
  "openai-chat": { model: "m", messages: said },
  "openai-responses": { model: "m", input: said },
  "anthropic-messages": { model: "m", max_tokens: 9, messages: said },
  gemini: {
    contents: said.map(({ role, content }) => ({
      role: role === "user" ? "user" : "model",
      parts: [{ text: content }],
    })),
  },
};

function counted<Result>(steps: Steps<Result>): { result: Result; count: number } {
  for (let count = 1; ; count++) {
    const { done, value } = steps.next();
    if (done) return { result: value, count };
  }
}

t.test("long conversations are decoded and encoded in many steps, with the same result", async (t) => {
  const envelopes = new Envelopes("a secret of the tests");
  for (const from of PROTOCOLS) {
    const received: ClientRequest = {
      protocol: SPOKEN[from],
      operation: SAY,
      streaming: false,
      text: JSON.stringify(LONG[from]),
      caller: "",
    };
    const whole = readRequest(received, envelopes);
    const read = counted(readRequestInSteps(received, envelopes));
    t.same(read.result, whole, from);
    t.ok(read.count > COUNT / 512, `${from} is read in ${read.count} steps`);
    for (const name of PROTOCOLS) {
      if (name === from) continue;
      const to = { protocol: SPOKEN[name] as TranslatedProtocol, account: "one", model: "m", facts: {} };
      const written = counted(writeRequestInSteps(whole, to, false));
      t.same(written.result, writeRequest(whole, to, false), `${from} to ${name}`);
      t.ok(written.count > COUNT / 512, `${from} is written to ${name} in ${written.count} steps`);
    }
  }
});

t.test("the bytes of a large request are parsed in steps, with the same result as its text", async (t) => {
  const envelopes = new Envelopes("a secret of the tests");
  const content = 'Is it "cold" 😀\\?\n'.repeat(100_000);
  const large: Record<ProtocolName, object> = {
    "openai-chat": { model: "m", messages: [{ role: "user", content }], seed: 12345678901 },
    "openai-responses": {
      model: "m",
      input: content,
      tools: [{ type: "function", name: "f", parameters: { a: 1.5 } }],
    },
    "anthropic-messages": { model: "m", max_tokens: 9, messages: [{ role: "user", content }] },
    gemini: { contents: [{ role: "user", parts: [{ text: content }] }] },
  };
  for (const from of PROTOCOLS) {
    const received = {
      protocol: SPOKEN[from],
      operation: SAY,
      streaming: false,
      caller: "",
    };
    const text = JSON.stringify(large[from]);
    const fromText = counted(readRequestInSteps({ ...received, text }, envelopes));
    const fromBytes = counted(readRequestInSteps({ ...received, text: "", bytes: Buffer.from(text) }, envelopes));
    t.same(fromBytes.result, fromText.result, from);
    t.ok(fromBytes.count > fromText.count + 5, `${from} is read in ${fromBytes.count} steps`);
    const cut = Buffer.from(text.slice(0, -1));
    t.throws(() => counted(readRequestInSteps({ ...received, text: "", bytes: cut }, envelopes)), {
      code: "invalid_json",
    });
  }
});

t.test("an error in a long conversation is reported from steps too", async (t) => {
  const messages = [...said, { role: "nobody", content: "" }];
  const received = (text: string): ClientRequest => ({
    protocol: SPOKEN["openai-chat"],
    operation: SAY,
    streaming: false,
    text,
    caller: "",
  });
  const read = (text: string) => counted(readRequestInSteps(received(text), new Envelopes("a secret of the tests")));
  t.throws(() => read(JSON.stringify({ model: "m", messages })), {
    code: "invalid_field",
    param: `messages.${COUNT}.role`,
  });
  t.throws(() => read('{"model":'), { code: "invalid_json" });
});

t.test("an object is written as JSON in steps where it has a long list, with the same result", async (t) => {
  const raw = new RawJson('{"a": 1.0}');
  const steps = (list: unknown[]) => {
    const object = { none: undefined, 'a"b': "c", list, empty: [], raw, last: null };
    const { result, count } = counted(writeJsonInSteps(object));
    t.equal(result, writeJson(object));
    return count;
  };
  t.equal(steps([]), 1);
  t.equal(steps([raw, undefined, null, "x"]), 1);
  t.equal(steps(Array.from({ length: 512 }, () => raw)), 1);
  t.ok(steps(Array.from({ length: 2000 }, (_, i) => (i % 3 ? { i, raw } : undefined))) > 3);
  const image = { data: "A".repeat(3000), raw, none: undefined };
  t.ok(steps([{ role: "user", content: Array(2000).fill(image) }]) > 3, "a list in an element of a short one");
  t.ok(steps([{ content: [{ content: Array(2000).fill(image) }] }, undefined, raw]) > 3, "and deeper");
  t.ok(steps(Array(300).fill({ ...image, data: "A".repeat(30_000) })) > 3, "a step ends earlier after long elements");
});
