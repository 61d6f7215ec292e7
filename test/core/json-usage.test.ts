import t from "tap";
import openaiChat from "../../plugins/protocols/openai-chat/index.ts";
import images from "../../plugins/protocols/openai-images/index.ts";
import openaiResponses from "../../plugins/protocols/openai-responses/index.ts";
import { JsonUsage } from "../../src/core/json-usage.ts";

function read(...pieces: string[]) {
  const usage = new JsonUsage([openaiChat, openaiResponses]);
  for (const piece of pieces) usage.push(Buffer.from(piece));
  const { in: input, out: output } = usage.end() ?? {};
  return input && output && [input.total, output.total];
}

t.test("usage is parsed by the first protocol that understands it, however the body is split", async (t) => {
  const chat = '{"text":"x","usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}';
  const responses = '{"usage":{"type":"tokens","input_tokens":14,"output_tokens":45},"text":"x"}';
  for (const cut of [1, 12, 30, 50]) {
    t.same(read(chat.slice(0, cut), chat.slice(cut)), [3, 4]);
    t.same(read(responses.slice(0, cut), responses.slice(cut)), [14, 45]);
  }
});

t.test("a long body may have any names", async (t) => {
  t.same(read(`{"\\ud800":"${"x".repeat(5000)}","usage":{"prompt_tokens":3,"completion_tokens":4}}`), [3, 4]);
});

t.test("a short body is kept, in however many pieces it arrives, and a long one is not", async (t) => {
  for (const [text, kept] of [
    ["A text.", true],
    ["x".repeat(5000), false],
  ] as const) {
    const body = { usage: { prompt_tokens: 3, completion_tokens: 4 }, text };
    const bytes = Buffer.from(JSON.stringify(body));
    for (const size of [1, 7, 3000, bytes.length]) {
      const usage = new JsonUsage([openaiChat]);
      for (let at = 0; at < bytes.length; at += size) usage.push(bytes.subarray(at, at + size));
      t.match(usage.end(), { in: { total: 3 }, out: { total: 4 } });
      t.same(usage.json, kept ? body : undefined, `in pieces of ${size}`);
    }
  }
});

t.test("a byte order mark before the body is skipped, however the body is split", async (t) => {
  const body = Buffer.from(`\ufeff{"text":"${"x".repeat(5000)}","usage":{"prompt_tokens":3,"completion_tokens":4}}`);
  for (const text of [body, Buffer.from('\ufeff{"usage":{"prompt_tokens":3,"completion_tokens":4}}')])
    for (const cut of [0, 1, 2, 3, 4, 20]) {
      const usage = new JsonUsage([openaiChat]);
      usage.push(text.subarray(0, cut));
      usage.push(text.subarray(cut));
      t.match(usage.end(), { in: { total: 3 }, out: { total: 4 } }, `cut at ${cut}`);
      t.equal(usage.bytes, text.length);
    }
});

t.test("usage in which no protocol finds a total is kept as the vendor's JSON", async (t) => {
  for (const told of [{ type: "duration", seconds: 9 }, { cost_in_usd_ticks: 200_000_000 }]) {
    const usage = new JsonUsage([openaiChat, openaiResponses]);
    usage.push(Buffer.from(JSON.stringify({ text: "x", usage: told })));
    t.match(usage.end(), { in: { total: undefined }, out: { total: undefined }, raw: told });
    t.equal(usage.late, undefined);
  }
});

t.test("incomplete or invalid JSON yields no usage", async (t) => {
  for (const body of ['{"text":"x"}', "[1]", '{"usage":{"prompt_to', "not JSON", ""])
    t.equal(read(body), undefined, body);
  t.equal(read("not", '{"usage":{"prompt_tokens":3}}'), undefined);
});

t.test("images are counted, however large they are and wherever the pieces are split", async (t) => {
  const picture = { b64_json: "A".repeat(70_000), revised_prompt: 'says "b64_json" and "url"' };
  const answer = { created: 1, data: [picture, picture, picture], size: "1024x1024", quality: "high" };
  for (const [size, body] of [
    [1000, answer],
    [64, { ...answer, data: [{ url: "https://a.example" }] }],
  ] as const) {
    const text = Buffer.from(JSON.stringify(body));
    const usage = new JsonUsage([images]);
    for (let at = 0; at < text.length; at += size) usage.push(text.subarray(at, at + size));
    t.same(usage.end()?.images, { count: body.data.length, size: "1024x1024", quality: "high" });
  }
  const none = new JsonUsage([images]);
  none.push(Buffer.from('{"data":[]}'));
  t.equal(none.end(), undefined);
});

t.test("invalid usage in a protocol's member is a fault, and so is JSON that cannot be parsed", async (t) => {
  const odd = { ...openaiChat, usage: () => ({ in: { total: "5" }, out: {}, raw: undefined }) as never };
  const usage = new JsonUsage([odd]);
  usage.push(Buffer.from("{}"));
  t.equal(usage.end(), undefined);
  t.equal(usage.fault, "TypeError");
});

t.test("a long member that lacks the word for which it matters is not read", async (t) => {
  const seen: unknown[] = [];
  const protocol = {
    ...openaiChat,
    usageMembers: ["usage", "output"],
    usageWords: { output: "search" },
    usage: (json: unknown) => {
      seen.push((json as { output?: unknown }).output);
      return undefined;
    },
  };
  const long = "x".repeat(5000);
  for (const output of [[long], [long, "search"]]) {
    const reading = new JsonUsage([protocol]);
    reading.push(Buffer.from(JSON.stringify({ usage: {}, output })));
    reading.end();
  }
  t.same(seen, [undefined, [long, "search"]]);
});
