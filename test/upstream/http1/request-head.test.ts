import t from "tap";
import { answerHead, faultyHeader, outgoingHeaders, without } from "../../../src/upstream/http1/request-head.ts";

const raw = (...lines: string[]) => lines.map((line) => Buffer.from(line, "latin1"));

t.test("order, spelling and repetition of what passes are kept", (t) => {
  const lines = ["B", "1", "a", "2", "B", "3"];
  t.same(outgoingHeaders(lines, undefined), [...lines, "accept-encoding", "identity"]);
  t.same(answerHead(raw(...lines)), { headers: lines, encoding: undefined });
  t.end();
});

t.test("what Connection names goes, in any case and from any line; what every peer says names nothing", (t) => {
  const lines = ["X-A", "1", "x-b", "2", "CONNECTION", "x-a , Close,", "x-c", "3", "connection", "X-B", "Close", "4"];
  t.same(answerHead(raw(...lines)).headers, ["x-c", "3"]);
  t.same(outgoingHeaders(lines, undefined), ["x-c", "3", "accept-encoding", "identity"]);
  t.same(answerHead(raw("connection", "keep-alive", "x", "1")).headers, ["x", "1"]);
  t.end();
});

t.test("no header can be named away that this side sets itself", (t) => {
  t.same(outgoingHeaders(["connection", "content-length, accept-encoding"], 3), [
    ...["accept-encoding", "identity", "content-length", "3"],
  ]);
  t.end();
});

t.test("every field of one hop goes, in both directions", (t) => {
  const hop = ["connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te"];
  const all = [...hop, "trailer", "transfer-encoding", "upgrade", "http2-settings"].flatMap((name) => [
    ...[name, "x", name.toUpperCase(), "x"],
  ]);
  t.same(answerHead(raw(...all)).headers, []);
  t.same(outgoingHeaders(all, undefined), ["accept-encoding", "identity"]);
  t.end();
});

t.test("several lines of content-encoding are one list", (t) => {
  t.equal(answerHead(raw("content-encoding", "gzip", "Content-Encoding", "br")).encoding, "gzip, br");
  t.end();
});

t.test("bytes above ASCII survive as latin1", (t) => {
  const all = Buffer.from(Array.from({ length: 128 }, (_, i) => i + 128));
  const [, value] = answerHead([Buffer.from("x"), all]).headers;
  t.ok(Buffer.from(value as string, "latin1").equals(all));
  t.end();
});

t.test("the first header that cannot be written is named", (t) => {
  t.equal(faultyHeader(["a", "\t plain \x7e\xff", "b!#$%&'*+-.^_`|~9", ""]), undefined);
  for (let code = 0; code < 32; code++) {
    const value = `a${String.fromCharCode(code)}b`;
    t.equal(faultyHeader(["ok", "1", "x", value]), code === 9 ? undefined : "x", `code ${code}`);
    t.not(faultyHeader([value, "1"]), undefined);
  }
  t.equal(faultyHeader(["x", "\x7f"]), "x");
  t.equal(faultyHeader(["x", "\u0100"]), "x");
  t.equal(faultyHeader(["", "1"]), "");
  t.end();
});

t.test("without leaves the given list alone", (t) => {
  const lines = ["A", "1", "b", "2"];
  t.same(without(lines, new Set(["a"])), ["b", "2"]);
  t.same(lines, ["A", "1", "b", "2"]);
  t.end();
});
