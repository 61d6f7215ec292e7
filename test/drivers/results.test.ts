import t from "tap";
import { again, late, readResult, resultLine, summary } from "./results.ts";

const OUTPUT = `PASS openai chat.text 12ms
PASS openai chat.cut 7ms (APIError: terminated)
FAIL openai resp.store 8ms: 404 GET /v1/responses/x: is not served
FAIL openai: 2/3 scenarios in 0.1s against http://127.0.0.1:1 (model stub-{s})
`;

t.test("scenarios are counted, and failures are named with their reasons", async (t) => {
  const result = readResult("openai", OUTPUT, 1.25);
  t.same(result.failures, [
    { driver: "openai", scenario: "resp.store", reason: "404 GET /v1/responses/x: is not served" },
  ]);
  t.equal(resultLine(result), "openai                       2/3    1.3 s");
  t.match(resultLine({ ...result, excepted: 2 }), /1\.3 s {2}\(2 cannot pass\)$/);
  const text = summary([result, readResult("raw", "PASS raw a 1ms\nPASS raw: 1/1 scenarios in 0.1s\n", 1)]);
  t.match(text, /^\nFailed:\n {2}openai {2}resp\.store\n {6}404 GET/);
  t.match(text, /\n3 passed, 1 failed$/);
});

t.test("a driver that aborted, or ran nothing, has failed", async (t) => {
  const broken = readResult("genai", "PASS genai text 1ms\nTypeError: oops", 1);
  t.match(broken, { passed: 1, failures: [{ reason: /TypeError: oops/ }] });
  t.match(readResult("genai", "PASS genai: 0/0 scenarios in 0.0s", 1), { passed: 0, failures: [{ driver: "genai" }] });
  t.match(readResult("genai", "", 1).failures, [{ reason: "it said nothing" }]);
});

t.test("a scenario that failed on timing is repeated, and its second result counts", async (t) => {
  const first = readResult("openai", `FAIL openai chat.slow 9ms: first delta after 3579 ms: buffered\n${OUTPUT}`, 1);
  t.same(late(first), ["chat.slow"]);
  const right = readResult("openai", "PASS openai chat.slow 9ms\nPASS openai: 1/1 scenarios in 0.1s\n", 1);
  t.match(again(first, right), { passed: 3, failures: [{ scenario: "resp.store" }] });
  const wrong = { ...right, passed: 0, failures: first.failures.slice(0, 1) };
  t.match(again(first, wrong), { passed: 2, failures: [{ scenario: "resp.store" }, { scenario: "chat.slow" }] });
});
