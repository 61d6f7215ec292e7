/**
 * Requests whose bytes pass, with state of other providers put into every place where a client can put it: what comes out
 * is, byte for byte, what was there before.
 */
import t from "tap";
import type { Facts } from "../../src/core/marketplace.ts";
import type { TranslatedProtocol } from "../../src/translation/codec.ts";
import { Envelopes } from "../../src/translation/envelope.ts";
import { withoutUnreadable } from "../../src/translation/unreadable.ts";
import { type JsonPath, locate } from "../../src/wire/paths.ts";
import { splice } from "../../src/wire/splice.ts";
import { asList, asObject, type JsonObject } from "../../src/wire/values.ts";
import { tried } from "../support/sample.ts";
import { SPOKEN } from "../support/translations.ts";
import type { ProtocolName } from "../support/vendor-sdks.ts";
import { requests } from "./request-matrix.ts";

const envelopes = new Envelopes("a secret of this test");
const FOREIGN = envelopes.seal({ protocol: "nobody", account: "others", kind: "signature", data: "c2ln" });

/** JSON that is put in front of what stands at a path: an element of a list, or the first member of an object. */
interface Insertion {
  at: JsonPath;
  /** `element`: in front of the value at the path. `member`: the first member of the object at the path. */
  as: "element" | "member";
  json: string;
}

/** Every place of a request in which a client can put state, with what it looks like there. */
const PLACES: Readonly<Record<ProtocolName, (body: JsonObject) => Insertion[]>> = {
  "anthropic-messages": ({ messages }) =>
    asList(messages).flatMap((message, i) => {
      const { role, content } = asObject(message) ?? {};
      if (role !== "assistant" || asList(content).length === 0) return [];
      const at = ["messages", i, "content", 0];
      return [
        { at, as: "element", json: `{"type":"redacted_thinking","data":"${FOREIGN}"}` },
        { at, as: "element", json: `{"type":"thinking","thinking":"Hm.","signature":"${FOREIGN}"}` },
      ];
    }),
  gemini: ({ contents }) =>
    asList(contents).flatMap((content, i): Insertion[] => {
      const { role, parts } = asObject(content) ?? {};
      if (role !== "model" || asList(parts).length === 0) return [];
      return [
        {
          at: ["contents", i, "parts", 0],
          as: "element",
          json: `{"text":"Hm.","thought":true,"thoughtSignature":"${FOREIGN}"}`,
        },
        ...asList(parts).flatMap((part, j): Insertion[] => {
          const { thoughtSignature, thought_signature, functionCall, text, thought } = asObject(part) ?? {};
          // It would sign the thought before it, which then goes too.
          if (isUnsignedThought(asList(parts)[j - 1])) return [];
          if ((thoughtSignature ?? thought_signature) !== undefined || (functionCall ?? text) === undefined) return [];
          // A thought goes with its state, as does a text without a word.
          if (thought === true || text === "") return [];
          return [{ at: ["contents", i, "parts", j], as: "member", json: `"thoughtSignature":"${FOREIGN}"` }];
        }),
      ];
    }),
  "openai-responses": ({ input }) =>
    asList(input).map((_, i) => ({
      at: ["input", i],
      as: "element",
      json: `{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"${FOREIGN}"}`,
    })),
  "openai-chat": ({ messages }) =>
    asList(messages).flatMap((message, i): Insertion[] => {
      const { role, content, reasoning_details, reasoning_content, reasoning, tool_calls } = asObject(message) ?? {};
      // A message of nothing but thoughts goes with them.
      if (role !== "assistant" || (!content && !tool_calls)) return [];
      // The same thoughts stand beside it in plain words, and go too.
      const thoughts = reasoning_details ?? reasoning_content ?? reasoning;
      const details: Insertion[] =
        thoughts === undefined
          ? [
              {
                at: ["messages", i],
                as: "member",
                json: `"reasoning_details":[{"type":"reasoning.encrypted","data":"${FOREIGN}"}]`,
              },
            ]
          : [];
      const calls = asList(tool_calls).flatMap((call, j): Insertion[] =>
        asObject(call)?.["extra_content"] === undefined
          ? [
              {
                at: ["messages", i, "tool_calls", j],
                as: "member",
                json: `"extra_content":{"google":{"thought_signature":"${FOREIGN}"}}`,
              },
            ]
          : [],
      );
      return [...details, ...calls];
    }),
};

function isUnsignedThought(part: unknown): boolean {
  const { thought, thoughtSignature, thought_signature } = asObject(part) ?? {};
  return thought === true && (thoughtSignature ?? thought_signature) === undefined;
}

function inserted(text: Buffer, { at, as, json }: Insertion): Buffer {
  const [found] = locate(text, [at]);
  if (!found) throw new Error(`nothing stands at ${at.join(".")}`);
  let offset = found.start;
  if (as === "member") for (offset++; (text[offset] as number) <= 0x20; offset++);
  return Buffer.concat([text.subarray(0, offset), Buffer.from(`${json},`), text.subarray(offset)]);
}

function cleaned(protocol: ProtocolName, text: Buffer): { text: Buffer; notices: readonly string[] } {
  // Gemini's newest models get a mark in place of a call's signature; that is a case of test/golden/sharp-cases.cleaned.
  const facts: Facts = protocol === "gemini" ? { thinking: "budget" } : {};
  const to = { protocol: SPOKEN[protocol] as TranslatedProtocol, account: "them", model: "theirs", facts };
  const { edits, losses } = withoutUnreadable(text, JSON.parse(text.toString()), envelopes, to, false);
  return { text: Buffer.concat(splice([text], edits)), notices: losses.notices };
}

/** The request without a setting that cannot stand without the state, which is told in a notice. */
const withoutThinking = (text: Buffer): string =>
  JSON.stringify({ ...(JSON.parse(text.toString()) as JsonObject), thinking: undefined });

const all = requests();

for (const protocol of Object.keys(PLACES) as ProtocolName[])
  t.test(
    `${protocol}: what a provider cannot read leaves, and all other bytes stay`,
    { skip: !all && "absent" },
    async (t) => {
      const wrong: string[] = [];
      let places = 0;
      for (const { id, text } of all?.filter((each) => each.protocol === protocol) ?? []) {
        const body = JSON.parse(text) as JsonObject;
        for (const original of [Buffer.from(text), Buffer.from(JSON.stringify(body, null, 2))]) {
          if (!cleaned(protocol, original).text.equals(original)) wrong.push(`${id}: changed without need`);
          for (const insertion of PLACES[protocol](body)) {
            places++;
            const { text: left, notices } = cleaned(protocol, inserted(original, insertion));
            const told = notices.some((notice) => notice.startsWith("thinking: "));
            const same = told ? withoutThinking(left) === withoutThinking(original) : left.equals(original);
            const noticed = notices.some((notice) => notice.startsWith("Reasoning that another provider made"));
            if (!same || !noticed) wrong.push(`${id}: ${insertion.json.slice(0, 60)} at ${insertion.at.join(".")}`);
          }
        }
      }
      t.same(wrong.slice(0, 5), [], `${wrong.length} wrong of ${places}`);
      t.ok(places > tried(20), `${places} places`);
    },
  );
