import t from "tap";
import { failedText } from "../../../../plugins/protocols/openai/failed.ts";

t.test("texts that speak of an error say it themselves", async (t) => {
  for (const text of ["Error: no such file", "It failed.", "Access denied", '{"exception":1}'])
    t.equal(failedText(["42", text]), undefined, text);
});

t.test("all other texts together become the error of an object", async (t) => {
  t.equal(failedText(["42"]), '{"error":"42"}');
  t.equal(failedText(["42", "43"]), '{"error":"42\\n43"}');
  t.equal(failedText([]), '{"error":"The tool failed."}');
  t.equal(failedText([""]), '{"error":"The tool failed."}');
});
