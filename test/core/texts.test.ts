import t from "tap";
import { Body } from "../../src/core/body.ts";
import type { Protocol, TextKind } from "../../src/core/protocol.ts";
import { mapTextEdits, requestTexts, responseTexts, wholeResponseTexts } from "../../src/core/texts.ts";
import { Frame } from "../../src/wire/frame.ts";
import { SPEAKS_TEXT } from "../support/speaks-text.ts";

const body = (json: string): Body => new Body([Buffer.from(json)], "json");
const REQUEST =
  '{ "t": [ {"k":"system","d":"Be \\u0062rief."} ,{"k":"user","d":"me@home"}, {"k":"tool_call","j":true,"d":"{\\"to\\": \\"me@home\\",\\"n\\":1.0}"}], "n":1.0}';

t.test("a request's texts have their kinds, of JSON text the strings in it", async (t) => {
  t.same(requestTexts(body(REQUEST), SPEAKS_TEXT), [
    { kind: "system", text: "Be brief." },
    { kind: "user", text: "me@home" },
    { kind: "tool_call", text: "me@home" },
  ]);
  t.same(requestTexts(body(REQUEST), SPEAKS_TEXT, ["user"]), [{ kind: "user", text: "me@home" }]);
});

t.test("texts of some kinds are replaced, and all other bytes are kept", async (t) => {
  const mapped = (kinds: readonly TextKind[], map: (text: string, kind: TextKind) => string): string => {
    const asked = body(REQUEST);
    return asked
      .edited(mapTextEdits(asked, SPEAKS_TEXT, kinds, map))
      .bytes()
      .toString();
  };
  t.equal(
    mapped(["user"], () => 'a"b'),
    REQUEST.replace('"me@home"', '"a\\"b"'),
  );
  t.equal(
    mapped(["tool_call"], (text) => `"${text}"`),
    REQUEST.replace('\\"me@home\\"', '\\"\\\\\\"me@home\\\\\\"\\"'),
  );
  t.equal(
    mapped(["system", "user", "tool_call"], (text) => text),
    REQUEST,
    "unchanged texts keep their spelling",
  );
  t.match(
    mapped(["system", "user"], (text, kind) => kind + text),
    /"systemBe brief\.".*"userme@home"/,
  );
});

t.test("a text whose member is duplicated is refused, as another parser could use the other one", async (t) => {
  for (const texts of ['"d":"first@home","d":"x"', '"d":"x","d":"first@home"', '"d":"x","\\u0064":"first@home"']) {
    const twice = body(`{"t":[{"k":"user",${texts}}]}`);
    t.throws(() => mapTextEdits(twice, SPEAKS_TEXT, ["user"], () => "x"), { code: "invalid_json" });
    t.throws(() => requestTexts(twice, SPEAKS_TEXT), { code: "invalid_json" });
  }
});

t.test("invalid JSON text is a plain text", async (t) => {
  const speaks = {
    texts: { request: () => [{ path: ["d"], kind: "tool_call", json: true }], response: () => [] },
  } as unknown as Protocol;
  for (const text of ["me@home", '{"a":"me@home']) {
    const broken = body(JSON.stringify({ d: text }));
    const edits = mapTextEdits(broken, speaks, ["tool_call"], (each) => each.replace("me@home", "<1>"));
    t.same(JSON.parse(broken.edited(edits).bytes().toString()), { d: text.replace("me@home", "<1>") });
  }
});

t.test("a protocol or a body without texts has none", async (t) => {
  t.same(requestTexts(body(REQUEST), {} as Protocol), []);
  t.same(
    mapTextEdits(new Body([Buffer.from("--x")], undefined), SPEAKS_TEXT, ["user"], () => ""),
    [],
  );
  t.same(responseTexts({ t: [] }, {} as Protocol), []);
});

t.test("a kind that there is not is an error, wherever texts are looked for", async (t) => {
  const kinds = ["user", "usr"] as TextKind[];
  const message = /no texts of the kind "usr", but of system, user, assistant/;
  t.throws(() => requestTexts(body(REQUEST), SPEAKS_TEXT, kinds), { name: "TypeError", message });
  t.throws(() => mapTextEdits(body(REQUEST), SPEAKS_TEXT, kinds, (text) => text), { message });
  t.throws(() => responseTexts({ t: [] }, SPEAKS_TEXT, kinds), { message });
});

t.test("a frame has pieces of texts", async (t) => {
  const frame = {
    t: [
      { k: "assistant", p: "0", d: "Hel" },
      { k: "reasoning", d: "Hm." },
    ],
  };
  t.same(responseTexts(frame, SPEAKS_TEXT), [
    { kind: "assistant", text: "Hel", piece: "0" },
    { kind: "reasoning", text: "Hm." },
  ]);
});

t.test("a complete response has each text once: pieces are merged, and full repetitions are left out", async (t) => {
  const event = (...texts: object[]) => new Frame("event", Buffer.from(`data: ${JSON.stringify({ t: texts })}\n\n`));
  const frames = [
    event({ k: "assistant", p: "a", d: "Hel" }, { k: "reasoning", d: "Hm." }),
    event({ k: "assistant", p: "b", d: "Wor" }),
    event({ k: "assistant", p: "a", d: "lo" }),
    event({ k: "assistant", p: "b", d: "ld" }),
    event({ k: "assistant", d: "Hello" }, { k: "assistant", d: "World" }),
    new Frame("end", Buffer.alloc(0)),
  ];
  t.same(wholeResponseTexts(frames, SPEAKS_TEXT), [
    { kind: "assistant", text: "Hello" },
    { kind: "reasoning", text: "Hm." },
    { kind: "assistant", text: "World" },
  ]);
  t.same(wholeResponseTexts(frames, SPEAKS_TEXT, ["reasoning"]), [{ kind: "reasoning", text: "Hm." }]);
});

t.test(
  "of members that repeat one text, a complete response has the first or longest, and others that differ",
  async (t) => {
    const event = (...texts: object[]) => new Frame("event", Buffer.from(`data: ${JSON.stringify({ t: texts })}\n\n`));
    const read = (...frames: object[][]) =>
      wholeResponseTexts(
        frames.map((texts) => event(...texts)),
        SPEAKS_TEXT,
      ).map(({ text }) => text);
    const one = (d: string) => ({ k: "reasoning", p: "one", d, a: ["thoughts", "one"] });
    const two = (d: string, of = "thoughts") => ({ k: "reasoning", p: "two", d, a: [of, "two"] });
    t.same(read([one("Let me "), two("Let me ")], [one("see."), two("see.")]), ["Let me see."]);
    t.same(read([one("Let me ")], [one("see.")], [two("Let  me\nsee.")]), ["Let me see."], "white space may differ");
    t.same(read([one("Let me")], [two("Let me see.")]), ["Let me see."], "the beginning");
    t.same(read([two("Let me see.")]), ["Let me see."]);
    t.same(
      read([one("Let me see."), two("It is cold.")]),
      ["Let me see.", "It is cold."],
      "nothing unread is left out",
    );
    t.same(read([one("Hm."), two("Hm.", "others")]), ["Hm.", "Hm."], "another text");
    t.same(responseTexts({ t: [two("Hm.")] }, SPEAKS_TEXT), [
      { kind: "reasoning", text: "Hm.", piece: "two", alternative: { of: "thoughts", member: "two" } },
    ]);
  },
);
