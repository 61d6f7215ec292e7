import t from "tap";
import protocol from "../../../../plugins/protocols/openai-images/index.ts";
import { readUsage } from "../../../../plugins/protocols/openai-images/usage.ts";
import { asEvent, jsonOf, recorded } from "../../../support/recorded.ts";

t.test("every part of a full report is decoded, in a whole answer as in an event", async (t) => {
  const usage = {
    input_tokens: 50,
    output_tokens: 1056,
    total_tokens: 1106,
    input_tokens_details: { text_tokens: 10, image_tokens: 40, cached_tokens: 60 },
    output_tokens_details: { text_tokens: 0, image_tokens: 1056 },
  };
  const normal = { in: { total: 50, cached: 50, image: 40 }, out: { total: 1056, image: 1056 }, raw: usage };
  t.strictSame(readUsage({ created: 1, data: [], usage }), normal);
  const event = asEvent({ type: "image_generation.completed", b64_json: "aGk=", usage });
  t.ok(protocol.holdsUsage(event));
  t.strictSame(readUsage(event.json()), { ...normal, images: { count: 1 } });
});

t.test("output tokens are image tokens where the vendor does not split them", async (t) => {
  const usage = { input_tokens: 50, output_tokens: 1056, input_tokens_details: { image_tokens: 40 } };
  t.strictSame(readUsage({ usage })?.out, { total: 1056, image: 1056 });
});

t.test("an answer without usage keeps what was known", async (t) => {
  const first = readUsage({ usage: { input_tokens: 3 } });
  t.equal(readUsage({ data: [] }, first), first);
  t.equal(readUsage({ data: [] }), undefined);
});

for (const { id, status, body } of recorded("openai-images")) {
  if (status >= 300) continue;
  t.test(id, async (t) => {
    const json = jsonOf(body) as { usage?: { cost_in_usd_ticks: number } };
    // Only xAI's recordings report something, and that is money instead of tokens.
    t.strictSame(
      readUsage(json),
      json.usage && { in: {}, out: {}, providerCost: json.usage.cost_in_usd_ticks / 10, raw: json.usage },
    );
    t.equal(protocol.holdsUsage(asEvent(json)), json.usage !== undefined);
  });
}

t.test("the image of an event is counted, for prices by the image, with its size and quality", async (t) => {
  const usage = { input_tokens: 1, output_tokens: 2 };
  const event = { type: "image_edit.completed", b64_json: "aGk=", size: "1024x1024", quality: "high", usage };
  const first = readUsage(event);
  t.same(first?.images, { count: 1, size: "1024x1024", quality: "high" });
  t.equal(readUsage(event, first)?.images?.count, 2);
  t.same(readUsage({ usage }, first)?.images, first?.images);
});
