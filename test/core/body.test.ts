import t from "tap";
import { Body, parseUnambiguous } from "../../src/core/body.ts";
import { type Scan, scan } from "../../src/wire/json.ts";
import { type ByteSpan, removeMembers, replaceMember, setMember } from "../../src/wire/splice.ts";
import { gathered } from "../support/gathered.ts";

const CHAT = Buffer.from('{"model":"fast","messages":[{"role":"user","content":"é😀 12345678901234567890"}],"n":1.0}');

gathered(t, "slices come without a copy where one piece holds them, and right where several do", async (t) => {
  for (let cut = 0; cut <= CHAT.length; cut += 3) {
    const pieces = [CHAT.subarray(0, cut), CHAT.subarray(cut)];
    for (let from = 0; from < CHAT.length; from += 5) {
      const body = new Body(pieces, scan(CHAT));
      const slice = body.slice(from, from + 10);
      t.ok(slice.equals(CHAT.subarray(from, from + 10)));
      if (from + 10 <= cut || from >= cut) t.equal(slice.byteOffset, CHAT.byteOffset + from);
    }
  }
  t.equal(new Body([CHAT], undefined).slice(5, 5).length, 0);
});

gathered(
  t,
  "slices of many pieces, of which some are empty, are right in any order, also once they are joined",
  async (t) => {
    const pieces = Array.from({ length: CHAT.length }, (_, n) => [CHAT.subarray(n, n + 1), CHAT.subarray(0, 0)]).flat();
    const body = new Body([CHAT.subarray(0, 0), ...pieces], scan(CHAT));
    const check = () => {
      for (let to = CHAT.length + 1; to >= 0; to -= 3)
        for (let from = 0; from <= to; from += 2) t.ok(body.slice(from, to).equals(CHAT.subarray(from, to)));
    };
    check();
    body.bytes();
    check();
  },
);

t.test("a complete body is joined and parsed once", async (t) => {
  const body = new Body([CHAT.subarray(0, 10), CHAT.subarray(10)], scan(CHAT));
  t.equal(body.bytes(), body.bytes());
  t.strictSame(body.pieces, [body.bytes()], "the chunks are released");
  t.equal(body.json(), body.json());
  t.equal(new Body([CHAT], undefined).bytes(), CHAT, "one piece is not copied");
  t.throws(() => new Body([Buffer.from("{")], undefined).json(), { code: "invalid_json" });
  t.equal(Body.empty.length, 0);
  t.equal(Body.empty.bytes().length, 0);
});

t.test("a member of a body that has been parsed is not parsed again", async (t) => {
  const body = new Body([CHAT], scan(CHAT));
  const before = body.value("messages");
  const { messages } = body.json() as { messages: unknown };
  t.equal(body.value("messages"), messages);
  t.equal(body.lazyMembers()["messages"], messages);
  t.equal(body.value("toString"), undefined);
  body.releaseParsed();
  t.not(body.value("messages"), messages);
  t.same([before, body.value("messages")], [messages, messages]);
});

const edited = (body: Body, name: string, json: string): Body => {
  const member = body.member(name);
  return body.edited([member ? replaceMember(member, json) : setMember(body.scan as Scan, name, json)]);
};

t.test("an edited body is another body, with the edited bytes and members", async (t) => {
  for (const found of ["json", scan(CHAT)] as const) {
    const body = new Body([CHAT.subarray(0, 12), CHAT.subarray(12)], found);
    const longer = edited(body, "n", "22000");
    const named = edited(longer, "user", '"me"');
    const bare = named.edited(removeMembers(named.scan as Scan, ["model", "messages"]));
    t.equal(body.bytes().toString(), CHAT.toString());
    t.same([longer.value("n"), named.value("n"), named.value("user")], [22000, 22000, "me"]);
    t.same(bare.json(), { user: "me", n: 22000 });
    t.equal(bare.length, bare.bytes().length);
  }
});

t.test("unedited parts are not copied, and a body without edits is itself", async (t) => {
  const pieces = [CHAT.subarray(0, 30), CHAT.subarray(30)];
  const body = new Body(pieces, "json");
  t.equal(body.edited([]), body);
  t.equal(edited(body, "n", "2").pieces[0], pieces[0]);
});

t.test(
  "an edit that makes the body invalid is refused at once, whether it replaces a complete member or a part of one",
  async (t) => {
    const failed = { code: "plugin_failed", message: "A plugin left a body that is not JSON." };
    const body = () => new Body([CHAT], "json");
    t.throws(() => edited(body(), "n", "{"), failed);
    t.throws(() => edited(body(), "new", '1,"newer":'), failed);
    t.throws(() => edited(edited(body(), "n", "2"), "n", ""), failed);
    t.throws(() => body().edited([{ start: 0, end: 1, bytes: Buffer.from("[") }]), failed);
    const form = new Body([CHAT], undefined);
    t.equal(
      form.edited([{ start: 0, end: 1, bytes: Buffer.from("[") }]).scan,
      undefined,
      "an invalid form is not checked",
    );
  },
);

t.test(
  "an edit inside a long string is checked at once, and a client's own mistake there is reported as the client's",
  (t) => {
    const text = (inside: string) =>
      Buffer.from(`{"model":"m","messages":["${"x".repeat(500)}${inside}${"y".repeat(500)}"]}`);
    for (const bad of ["\n", "\\x", "\\ud8"]) {
      const bytes = Buffer.from(bad);
      const good = text("");
      const edit = (body: Buffer) => new Body([body], scan(body)).edited([{ start: 400, end: 401, bytes }]);
      t.throws(() => edit(good), { code: "plugin_failed" }, JSON.stringify(bad));
      const other = () => new Body([good], scan(good)).edited([{ start: 400, end: 401, bytes: Buffer.from("\\n") }]);
      t.doesNotThrow(other);
      const faulty = Buffer.concat([text("").subarray(0, 600), bytes, text("").subarray(600)]);
      const harmless = () =>
        new Body([faulty], scan(faulty)).edited([{ start: 400, end: 401, bytes: Buffer.from("z") }]);
      t.throws(harmless, { code: "invalid_json", param: "messages" }, JSON.stringify(bad));
    }
    t.end();
  },
);

t.test("the position of a form's model field stays valid after other edits", async (t) => {
  const form = new Body([Buffer.from("--x painter --y")], undefined, { start: 4, end: 11 });
  const renamed = form.edited([
    { start: 4, end: 11, bytes: Buffer.from("vendors-own") },
    { start: 0, end: 0, bytes: Buffer.from("preamble ") },
  ]);
  const { start, end } = renamed.modelField as ByteSpan;
  t.equal(renamed.slice(start, end).toString(), "vendors-own");
  t.equal(renamed.scan, undefined);
});

t.test("duplicate members at any depth are reported to a plugin that needs the complete body", async (t) => {
  const body = (text: string) => new Body([Buffer.from(text)], "json");
  t.same(body('{"a":[{"b":1},{"b":2}],"c":{"a":":"}}').uniqueJson(), { a: [{ b: 1 }, { b: 2 }], c: { a: ":" } });
  const faults = ['{"a":[{"b":1,"b":2}]}', '{"a":{"b":1,"\\u0062":2}}', '{"a":{"__proto__":1,"__proto__":2}}'];
  for (const text of faults) t.throws(() => body(text).uniqueJson(), { code: "invalid_json" }, text);
});

t.test(
  "a mistake after the start of a long string is reported with its member and byte, whoever finds it",
  async (t) => {
    for (const [bad, said] of [
      ["\u0001", /byte 0x01 at byte 332/],
      ["\\x", /"x" at byte 333/],
      ["\\u12g4", /"g" at byte 336/],
    ] as const) {
      const text = `{"model":"m","metadata":{"user":"${"a".repeat(299)}${bad}"},"n":1}`;
      const pieces = [Buffer.from(text.slice(0, 100)), Buffer.from(text.slice(100))];
      const body = new Body(pieces, scan(Buffer.from(text)));
      t.equal(body.value("n"), 1, "members outside it can be read");
      const error = { code: "invalid_json", status: 400, param: "metadata", message: said };
      for (const read of [
        () => body.value("metadata"),
        () => body.json(),
        () => body.parse(() => JSON.parse(text)),
        () => body.edited([]).uniqueJson(),
      ])
        t.throws(read, error);
    }
    const ours = () => {
      throw new TypeError("ours");
    };
    t.throws(() => new Body([Buffer.from("{}")], undefined).parse(ours), new TypeError("ours"));
  },
);

t.test("a member's value, and a text, are read only if all parsers read the same", async (t) => {
  const body = new Body([Buffer.from('{"a":[{"x":1}],"b":{"x":1,"x":2}}')], "json");
  t.same(body.uniqueValue("a"), [{ x: 1 }]);
  t.equal(body.uniqueValue("none"), undefined);
  t.throws(() => body.uniqueValue("b"), { code: "invalid_json" });
  t.same(parseUnambiguous(Buffer.from('{"a":{"b":[1]}}')), { a: { b: [1] } });
  for (const text of ["{", '{"a":1,"a":1}', '[{"a":{"b":1,"\\u0062":2}}]'])
    t.throws(() => parseUnambiguous(Buffer.from(text)), { code: "invalid_json" }, text);
});

t.test("no name is read as another one that V8 has read before", async (t) => {
  const textOf = (kind: string, name: string) => Buffer.from(`{"list":[{"${kind}":0,"${name}":1}]}`);
  const readers: Record<string, (text: Buffer) => unknown> = {
    scanned: (text) => new Body([text], scan(text)).json(),
    unscanned: (text) => new Body([text], "json").json(),
    member: (text) => ({ list: new Body([text], scan(text)).value("list") }),
    elements: (text) => ({ list: new Body([text], "json").elements("list", 1) }),
    message: (text) => parseUnambiguous(text),
  };
  for (const [kind, read] of Object.entries(readers)) {
    // Objects of each kind have a first name of their own: V8 remembers what has followed it.
    JSON.parse(textOf(kind, "file_i\\\\").toString());
    t.same(read(textOf(kind, "file_i\\u0064")), { list: [{ [kind]: 0, file_id: 1 }] }, kind);
  }
  JSON.parse('{"at the top":0,"file_i\\\\":1}');
  const top = Buffer.from('{"at the top":0,"file_i\\u0064":1}');
  t.same(new Body([top], scan(top)).json(), { "at the top": 0, file_id: 1 });
});
