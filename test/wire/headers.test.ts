import t from "tap";
import { addMissing, checkHeaderLines, HeaderList, headerObject, headerValues } from "../../src/wire/headers.ts";

const list = () => new HeaderList(["Accept", "a", "X-Key", "1", "accept", "b", "x-Other", "2"]);

t.test("names are found in any case, the first line first", async (t) => {
  t.equal(list().get("ACCEPT"), "a");
  t.equal(list().get("x-key"), "1");
  t.equal(list().get("none"), undefined);
  t.ok(list().has("X-OTHER"));
  t.notOk(list().has("other"));
});

t.test("the order and spelling of unchanged lines is kept", async (t) => {
  t.strictSame(list().lines, ["Accept", "a", "X-Key", "1", "accept", "b", "x-Other", "2"]);
  t.strictSame(
    [...list().entries()],
    [
      ["accept", "a"],
      ["x-key", "1"],
      ["accept", "b"],
      ["x-other", "2"],
    ],
  );
});

t.test("all lines of a name are found, in their order", async (t) => {
  const headers = new HeaderList(["X-A", "1", "X-B", "2", "x-a", "3"]);
  t.same(headerValues(headers, "x-a"), ["1", "3"]);
  t.same(headerValues(headers, "x-c"), []);
});

t.test("setting leaves one line, in the position of the first", async (t) => {
  t.strictSame(list().set("accept", "c").lines, ["Accept", "c", "X-Key", "1", "x-Other", "2"]);
  t.strictSame(list().set("New", "3").lines.slice(-2), ["New", "3"]);
});

t.test("appending adds a line beside those of that name", async (t) => {
  const headers = list().append("ACCEPT", "z");
  t.strictSame(
    [...headers.entries()].filter(([name]) => name === "accept").map(([, value]) => value),
    ["a", "b", "z"],
  );
});

t.test("deleting removes every line of a name", async (t) => {
  const headers = list();
  t.equal(headers.delete("Accept"), true);
  t.equal(headers.delete("accept"), false);
  t.strictSame(headers.lines, ["X-Key", "1", "x-Other", "2"]);
  t.equal(headers.get("x-other"), "2", "the remaining ones are still found");
});

t.test("deleting by a test gets the lower-case name and the value, and returns the count", async (t) => {
  const headers = list();
  t.equal(
    headers.deleteWhere((name, value) => name.startsWith("x-") || value === "b"),
    3,
  );
  t.strictSame(headers.lines, ["Accept", "a"]);
});

t.test("a test that reads the list, or throws, sees all lines as they were", async (t) => {
  const lines = ["x-drop", "a", "B", "1", "a", "2", "c", "3"];
  const headers = new HeaderList([...lines]);
  const throwing = (name: string) => {
    if (name === "c") throw new Error("no");
    return name === "x-drop";
  };
  t.throws(() => headers.deleteWhere(throwing));
  t.strictSame(headers.lines, lines);
  t.equal(
    headers.deleteWhere((name) => name === "x-drop" || name === headers.get("x-drop")),
    2,
  );
  t.strictSame([...headers.entries()].flat(), ["b", "1", "c", "3"]);
});

t.test("filtered lines make another list, in the same order and spelling", async (t) => {
  const headers = list();
  const kept = headers.filter((name) => name !== "accept");
  t.notOk(kept.has("accept"));
  kept.set("x-key", "changed");
  t.equal(headers.get("x-key"), "1");
  t.ok(headers.has("accept"));
});

t.test("what could not be sent is refused, and a value is not repeated", async (t) => {
  const headers = list();
  const before = [...headers.lines];
  for (const [name, value] of [
    ["bad name", "x"],
    ["", "x"],
    ["x-new", "secret\r\nx: y"],
    ["x-key", "secret\u0100"],
    ["x-key", 5 as unknown as string],
  ] as const) {
    t.throws(() => headers.set(name, value), { name: "TypeError", message: /^(?!.*secret)/ }, `${name}: ${value}`);
    t.throws(() => headers.append(name, value), TypeError);
  }
  t.strictSame(headers.lines, before);
});

t.test("a connection header is refused: the engine sets it", async (t) => {
  const headers = list();
  const before = [...headers.lines];
  for (const name of [
    "Connection",
    "transfer-encoding",
    "keep-alive",
    "te",
    "trailer",
    "upgrade",
    "proxy-connection",
  ]) {
    const told = {
      name: "TypeError",
      message: `The header ${name} belongs to the connection, and the gateway sets it.`,
    };
    t.throws(() => headers.set(name, "x"), told);
    t.throws(() => headers.append(name, "x"), told);
    t.throws(() => checkHeaderLines(["x-key", "1", name, "x"]), told);
  }
  t.throws(() => checkHeaderLines(["Content-Length", "5"]), { message: /^The header Content-Length belongs/ });
  t.strictSame(headers.lines, before);
  for (const change of ["set", "append"] as const)
    t.throws(() => headers[change]("Content-Length", "5"), /belongs to the connection/, change);
});

t.test("header lines become an object, in which a repeated name has all its values", async (t) => {
  const list = new HeaderList(["A", "1", "b", "2", "a", "3", "a", "4"]);
  t.same(headerObject(list), { a: ["1", "3", "4"], b: "2" });
  t.same(headerObject(list, ["B", "5", "c", "6"]), { a: ["1", "3", "4"], b: ["2", "5"], c: "6" });
});

t.test("headers that are missing are added, and those that are there stay", async (t) => {
  const headers = new HeaderList(["Version", "2"]);
  addMissing(headers, [
    ["version", "1"],
    ["accept", "*/*"],
  ]);
  addMissing(headers, undefined);
  t.same(headers.lines, ["Version", "2", "accept", "*/*"]);
});
