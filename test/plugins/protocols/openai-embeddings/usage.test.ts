import t from "tap";
import { readUsage } from "../../../../plugins/protocols/openai-embeddings/usage.ts";
import { jsonOf, recorded } from "../../../support/recorded.ts";

t.test("all tokens are input", async (t) => {
  const usage = { prompt_tokens: 3, total_tokens: 3 };
  t.strictSame(readUsage({ usage }), { in: { total: 3 }, out: {}, raw: usage });
});

t.test("a vendor that reports only the total reports the input", async (t) => {
  t.strictSame(readUsage({ usage: { total_tokens: 7 } })?.in, { total: 7 });
});

t.test("an answer without usage keeps what was known", async (t) => {
  const first = readUsage({ usage: { prompt_tokens: 3 } });
  t.equal(readUsage({ usage: null }, first), first);
  t.equal(readUsage({ data: [] }), undefined);
});

t.test("every recorded answer's tokens are read", async (t) => {
  const wrong = recorded("openai-embeddings").filter(({ status, body }) => {
    if (status >= 300) return false;
    const json = jsonOf(body) as { usage: { total_tokens: number } };
    return readUsage(json)?.in.total !== json.usage.total_tokens;
  });
  t.same(wrong, []);
});
