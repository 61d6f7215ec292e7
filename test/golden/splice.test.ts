/**
 * Requests whose bytes pass, with state of other providers put into every place where a client can put it: what comes out
 * is, byte for byte, what was there before.
 */
import { readFileSync } from "node:fs";
import t from "tap";
import { COMPACTION, SUMMARY_LEAD, SUMMARY_STATE } from "../../plugins/protocols/openai-responses/wire.ts";
import type { Facts } from "../../src/core/marketplace.ts";
import type { TranslatedProtocol } from "../../src/translation/codec.ts";
import { Envelopes } from "../../src/translation/envelope.ts";
import { removeUnreadable } from "../../src/translation/unreadable.ts";
import { type JsonPath, pathEdits } from "../../src/wire/paths.ts";
import { splice } from "../../src/wire/splice.ts";
import { asList, asObject, type JsonObject } from "../../src/wire/values.ts";
import { locatePaths } from "../support/locate-paths.ts";
import { EVERY_CASE, tried } from "../support/sample.ts";
import { SPOKEN } from "../support/translations.ts";
import type { ProtocolName } from "../support/vendor-sdks.ts";
import { requests } from "./request-matrix.ts";

const envelopes = new Envelopes("a secret of this test");
const FOREIGN = envelopes.seal({ protocol: "nobody", account: "others", kind: "signature", data: "c2ln" });

/** A compaction that the gateway made, which any provider reads as a message. */
const COMPACTED = envelopes.seal({ ...SUMMARY_STATE, data: "All is well." });

/** JSON that is put in front of what stands at a path: an element of a list, or the first member of an object. */
interface Insertion {
  at: JsonPath;
  /** `element`: in front of the value at the path. `member`: the first member of the object at the path. */
  as: "element" | "member";
  json: string;
  /** What stays of it; absent: nothing. */
  left?: string;
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
        ...SEARCHED.map(([json, left]) => ({ at, as: "element" as const, json, left })),
      ];
    }),
  gemini: (body) => geminiContents(body, []),
  "openai-responses": ({ input }) =>
    asList(input).flatMap((_, i): Insertion[] => [
      {
        at: ["input", i],
        as: "element",
        json: `{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"${FOREIGN}"}`,
      },
      {
        at: ["input", i],
        as: "element",
        json: `{"type":"compaction","id":"cmp_1","encrypted_content":"${COMPACTED}"}`,
        left: JSON.stringify({ type: "message", role: "user", content: `${SUMMARY_LEAD}All is well.` }),
      },
    ]),
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
              `{"type":"reasoning.encrypted","data":"${FOREIGN}"}`,
              `{"type":"reasoning.text","text":"Hm.","signature":"${FOREIGN}"}`,
            ].map((entry) => ({ at: ["messages", i], as: "member", json: `"reasoning_details":[${entry}]` }))
          : [];
      const calls = asList(tool_calls).flatMap((call, j): Insertion[] =>
        asObject(call)?.["extra_content"] === undefined ? onCall(["messages", i, "tool_calls", j]) : [],
      );
      return [...details, ...calls];
    }),
};

/** A cited text and the results of a search, which stay without what has a key: what had it, and what is left. */
const SEARCHED = [
  ['"type":"text","text":"Said."', "citations", "web_search_result_location", "encrypted_index"],
  ['"type":"web_search_tool_result","tool_use_id":"srvtoolu_1"', "content", "web_search_result", "encrypted_content"],
].map(([block, list, type, key]) =>
  [`{"type":"${type}","url":"https://a.example","title":null,"${key}":"${FOREIGN}"}`, ""].map(
    (entry) => `{${block},"${list}":[${entry}]}`,
  ),
) as [string, string][];

/** A call's signature alone, and with members beside it, which stay. */
const onCall = (at: JsonPath): Insertion[] =>
  [
    [`{"google":{"thought_signature":"${FOREIGN}"}}`],
    [`{"google":{"thought_signature":"${FOREIGN}"} , "x": 1.0}`, `{"x": 1.0}`],
    [`{"google":{ "x": 1.0 ,"thought_signature":"${FOREIGN}"}}`, `{"google":{ "x": 1.0}}`],
  ].map(([extra, left]) => ({
    at,
    as: "member",
    json: `"extra_content":${extra}`,
    ...(left === undefined ? {} : { left: `"extra_content":${left}` }),
  }));

/** A request of Gemini, and those within it. */
function geminiContents(body: JsonObject, at: JsonPath): Insertion[] {
  const within = ["generateContentRequest", "requests"].flatMap((name): Insertion[] => {
    const inner = body[name];
    if (Array.isArray(inner)) return inner.flatMap((each, i) => geminiContents(each as JsonObject, [...at, name, i]));
    return asObject(inner) ? geminiContents(inner as JsonObject, [...at, name]) : [];
  });
  const turns = asList(body["contents"]).flatMap((content, i) => geminiParts(content, [...at, "contents", i]));
  const single = ["systemInstruction", "content"].flatMap((name) => geminiParts(body[name], [...at, name]));
  return [...turns, ...single, ...within];
}

function geminiParts(content: unknown, above: JsonPath): Insertion[] {
  const { role, parts } = asObject(content) ?? {};
  const at = [...above, "parts"];
  const thought = `{"text":"Hm.","thought":true,"thoughtSignature":"${FOREIGN}"}`;
  const first: Insertion[] =
    role === "model" && asList(parts).length > 0 ? [{ at: [...at, 0], as: "element", json: thought }] : [];
  const signatures = asList(parts).flatMap((value, j): Insertion[] => {
    const part = asObject(value) ?? {};
    // It would sign the thought before it, which then goes too.
    if (isUnsignedThought(asList(parts)[j - 1])) return [];
    if ((part["thoughtSignature"] ?? part["thought_signature"]) !== undefined) return [];
    // A thought goes with its state, as does a part without a word or anything else.
    if (part["thought"] === true || part["text"] === "" || Object.keys(part).length === 0) return [];
    return ["thoughtSignature", "thought_signature"].map((name) => ({
      at: [...at, j],
      as: "member",
      json: `"${name}":"${FOREIGN}"`,
    }));
  });
  return [...first, ...signatures];
}

function isUnsignedThought(part: unknown): boolean {
  const { thought, thoughtSignature, thought_signature } = asObject(part) ?? {};
  return thought === true && (thoughtSignature ?? thought_signature) === undefined;
}

function inserted(text: Buffer, { at, as, json }: Insertion): Buffer {
  const [found] = locatePaths(text, [at]);
  if (!found) throw new Error(`nothing stands at ${at.join(".")}`);
  let offset = found.start;
  if (as === "member") for (offset++; (text[offset] as number) <= 0x20; offset++);
  return Buffer.concat([text.subarray(0, offset), Buffer.from(`${json},`), text.subarray(offset)]);
}

function cleaned(protocol: ProtocolName, text: Buffer): { text: Buffer; notices: readonly string[] } {
  // Gemini's newest models get a mark in place of a call's signature; that is a case of test/golden/sharp-cases.cleaned.
  const facts: Facts = protocol === "gemini" ? { thinking: "budget" } : {};
  const to = { protocol: SPOKEN[protocol] as TranslatedProtocol, account: "them", model: "theirs", facts };
  const { edits, losses } = removeUnreadable(text, JSON.parse(text.toString()), envelopes, to, false);
  return { text: Buffer.concat(splice([text], edits)), notices: losses.notices };
}

/** The request without a setting that cannot stand without the state, which is told in a notice. */
const withoutThinking = (text: Buffer): Buffer =>
  Buffer.concat(splice([text], pathEdits(text, { remove: [["thinking"]], replace: [] })));

/** What is left when the provider reads nothing of an insertion. */
function leftOf(original: Buffer, { left, ...insertion }: Insertion, notices: readonly string[]): Buffer {
  const rest = left === undefined ? original : inserted(original, { ...insertion, json: left });
  return notices.some((notice) => notice.startsWith("thinking: ")) ? withoutThinking(rest) : rest;
}

/** The bodies that a request is tried in: itself, and for Gemini also requests that hold it or its last content. */
function bodiesOf(protocol: ProtocolName, text: string): Buffer[] {
  const body = JSON.parse(text) as JsonObject;
  const bodies = [text, JSON.stringify(body, null, 2)];
  if (protocol === "gemini" && body["generateContentRequest"] === undefined) {
    bodies.push(`{ "generateContentRequest": ${text} }`, `{"requests":[${text},${text}]}`);
    const content = asList(body["contents"]).at(-1);
    const single = `{"content":${JSON.stringify(content ?? {})}}`;
    bodies.push(single, `{"generateContentRequest":${single}}`, `{"requests":[${single},${single}]}`);
  }
  return bodies.map((each) => Buffer.from(each));
}

const opaqueOf = (protocol: ProtocolName) => (SPOKEN[protocol] as TranslatedProtocol).translation.request.opaque;

/** Names of the members on a path, in camel case, with the type of what bears the state. */
const placeName = (path: JsonPath, type: string): string =>
  [type, ...path.filter((each) => typeof each === "string")].join(" ").replace(/_([a-z])/g, (_, c) => c.toUpperCase());

/** The places of envelopes in a body. */
function placesIn(protocol: ProtocolName, body: JsonObject): string[] {
  return [...opaqueOf(protocol).find(body)].flatMap(({ path }) => {
    let value: unknown = body;
    let holder: JsonObject = {};
    for (const name of path) {
      holder = value as JsonObject;
      value = holder[name];
    }
    if (value !== FOREIGN && value !== COMPACTED) return [];
    return [placeName(path, ""), placeName(path, String(holder["type"]))];
  });
}

/**
 * The places that a protocol looks for state in, learned from what it reads: each member that it reads of an object is once an
 * envelope, once an object and once a list of one; `type` is each string of its texts.ts.
 */
function placesSought(protocol: ProtocolName): Set<string> {
  const source = readFileSync(`plugins/protocols/${protocol}/texts.ts`, "utf8");
  const types = [...new Set([COMPACTION, ...Array.from(source.matchAll(/"(\w+)"/g), ([, word]) => word as string)])];
  const sought = new Set<string>();
  const visit = (around: (inner: JsonObject) => JsonObject, last: JsonObject, depth: number): void => {
    const read = new Set<string>();
    const note = <T>(name: string | symbol, value: T): T => {
      if (typeof name === "string") read.add(name);
      return value;
    };
    const noted = new Proxy(last, {
      get: (of, name) => note(name, Reflect.get(of, name)),
      getOwnPropertyDescriptor: (of, name) => note(name, Reflect.getOwnPropertyDescriptor(of, name)),
    });
    for (const _ of opaqueOf(protocol).find(around(noted)));
    for (const name of read) {
      for (const { path } of opaqueOf(protocol).find(around({ ...last, [name]: FOREIGN })))
        if (!sought.has(placeName(path, ""))) sought.add(placeName(path, String(last["type"] ?? "")));
      // Some members are read only where another one is a string.
      if (Object.keys(last).length === 0) visit(around, { [name]: FOREIGN }, 0);
      if (name === "type" && last["type"] === undefined)
        for (const type of types) visit(around, { ...last, type }, depth);
      if (depth === 0 || Object.keys(last).length > 0) continue;
      visit((inner) => around({ ...last, [name]: inner }), {}, depth - 1);
      visit((inner) => around({ ...last, [name]: [inner] }), {}, depth - 1);
    }
  };
  visit((inner) => inner, {}, 6);
  return sought;
}

const all = requests();

for (const protocol of Object.keys(PLACES) as ProtocolName[])
  t.test(
    `${protocol}: what a provider cannot read is removed, and all other bytes stay`,
    { skip: !all && "absent" },
    async (t) => {
      const wrong: string[] = [];
      let places = 0;
      const found = new Set<string>();
      for (const { id, text } of all?.filter((each) => each.protocol === protocol) ?? []) {
        for (const original of bodiesOf(protocol, text)) {
          if (!cleaned(protocol, original).text.equals(original)) wrong.push(`${id}: changed without need`);
          for (const insertion of PLACES[protocol](JSON.parse(original.toString()))) {
            places++;
            const request = inserted(original, insertion);
            const { text: left, notices } = cleaned(protocol, request);
            const same = left.equals(leftOf(original, insertion, notices));
            const lost = notices.some((notice) =>
              /^(?:Reasoning that another provider made|What another provider's search)/.test(notice),
            );
            if (!same || lost !== !insertion.json.includes(COMPACTED))
              wrong.push(`${id}: ${insertion.json.slice(0, 30)} at ${insertion.at.join(".")}`);
            for (const place of placesIn(protocol, JSON.parse(request.toString()))) found.add(place);
          }
        }
      }
      t.same(wrong.slice(0, 5), [], `${wrong.length} wrong of ${places}`);
      t.ok(places > tried(20), `${places} places`);
      const sought = placesSought(protocol);
      t.ok(sought.size > 0);
      if (EVERY_CASE)
        t.same(
          [...sought].filter((place) => !found.has(place)),
          [],
          "every place is tried",
        );
    },
  );
