import { createHash } from "node:crypto";
import t from "tap";
import {
  breakpointOf,
  effortFor,
  failedText,
  fitName,
  label,
  wholeCacheOf,
} from "../../../../plugins/protocols/openai/request.encode.ts";
import { ToolNames } from "../../../../src/translation/names.ts";
import { terms } from "../openai-chat/fixture.ts";

t.test("a mark holds as long as was asked, in the two times that the vendor has", async (t) => {
  const marks = [{}, { ttl: "5m" }, { ttl: "30m" }, { ttl: "1h" }, { ttl: "12h" }] as const;
  t.same(marks.map(breakpointOf), [
    { mode: "explicit" },
    { mode: "explicit" },
    { mode: "explicit", ttl: "30m" },
    { mode: "explicit", ttl: "12h" },
    { mode: "explicit", ttl: "12h" },
  ]);
  t.same(marks.map(wholeCacheOf), [
    undefined,
    undefined,
    { mode: "implicit", ttl: "30m" },
    { mode: "implicit", ttl: "12h" },
    { mode: "implicit", ttl: "12h" },
  ]);
});

t.test("a label that is too long is sent as its hash, and that is declared", async (t) => {
  const to = terms();
  t.equal(label("x".repeat(64), "user", to), "x".repeat(64));
  t.same(to.losses.changed, []);
  const long = "x".repeat(65);
  t.equal(label(long, "user", to), createHash("sha256").update(long).digest("hex"));
  t.same(to.losses.changed, ["user"]);
});

t.test("a tool's name fits the vendor, and leads back to the client's", async (t) => {
  const names = new ToolNames();
  for (const name of ["get_weather", "a.b/c", "x".repeat(100)]) {
    const fitted = fitName(name, names);
    t.match(fitted, /^[a-zA-Z0-9_-]{1,64}$/);
    t.equal(names.back(fitted), name);
  }
});

t.test("texts that speak of an error stay as they are", async (t) => {
  for (const text of ["Error: no such file", "It failed.", "Access denied", '{"exception":1}'])
    t.equal(failedText(["42", text]), undefined, text);
});

t.test("all other texts together become the error of an object", async (t) => {
  t.equal(failedText(["42"]), '{"error":"42"}');
  t.equal(failedText(["42", "43"]), '{"error":"42\\n43"}');
  t.equal(failedText([]), '{"error":"The tool failed."}');
  t.equal(failedText([""]), '{"error":"The tool failed."}');
});

t.test("tokens for thinking stand for the nearest effort; below 0 the model decides", async (t) => {
  t.same([-1, 0, 1, 1024, 1025, 4096, 12_288, 24_576, 24_577, 1_000_000].map(effortFor), [
    undefined,
    "none",
    "minimal",
    "minimal",
    "low",
    "low",
    "medium",
    "high",
    "xhigh",
    "xhigh",
  ]);
});
