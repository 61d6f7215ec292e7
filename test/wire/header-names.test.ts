import t from "tap";
import { headerName, matchesName } from "../../src/wire/header-names.ts";

t.test("a name is recognised in every spelling, and its key is one string", (t) => {
  t.match(headerName("Content-Type"), {
    spelling: "Content-Type",
    key: "content-type",
    isToken: true,
    isHopByHop: false,
  });
  t.match(headerName("CONNECTION"), { spelling: "CONNECTION", key: "connection", isToken: true, isHopByHop: true });
  t.equal(headerName("content-type").key, headerName("CONTENT-type").key);
  t.end();
});

t.test("an invalid token is no name", (t) => {
  for (const name of ["", " ", "a b", "a:b", "a\r\nb", "caf\u{e9}", "\0"]) t.notOk(headerName(name).isToken, name);
  t.ok(headerName("b!#$%&'*+-.^_`|~9").isToken);
  t.end();
});

t.test("unknown names are handled correctly, however many there are and of any length", (t) => {
  const numbers = Array.from({ length: 5000 }, (_, i) => i);
  t.same(
    numbers.filter((i) => headerName(`X-${i}`).key !== `x-${i}`),
    [],
  );
  t.equal(headerName("X".repeat(5000)).key, "x".repeat(5000));
  t.ok(headerName("transfer-encoding").isHopByHop);
  t.end();
});

t.test("a name is one of a list, or begins as a pattern does before its star", async (t) => {
  const patterns = ["x-a", "x-b-*"];
  const names = ["x-a", "x-ab", "x-b-", "x-b-c", "x-b", "y-x-a"];
  t.same(
    names.filter((name) => matchesName(name, patterns)),
    ["x-a", "x-b-", "x-b-c"],
  );
});
