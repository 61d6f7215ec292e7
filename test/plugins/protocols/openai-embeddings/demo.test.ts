import t from "tap";
import protocol from "../../../../plugins/protocols/openai-embeddings/index.ts";
import { demoOf, withSdks } from "../../../support/openai-sdks.ts";

const length = (vector: readonly number[]) => Math.hypot(...vector);

t.test("texts become vectors of length 1, as numbers and as base64 alike", (t) =>
  withSdks(t, protocol, async (t, client) => {
    // The SDKs ask for base64 unless told otherwise, and decode it.
    const decoded = await client.embeddings.create({ model: "echo", input: ["one", "two"] });
    const plain = await client.embeddings.create({ model: "echo", input: ["one", "two"], encoding_format: "float" });
    t.same(
      decoded.data.map(({ index }) => index),
      [0, 1],
    );
    for (const [n, { embedding }] of plain.data.entries()) {
      t.equal(embedding.length, 64);
      t.ok(Math.abs(length(embedding) - 1) < 1e-6);
      t.same(decoded.data[n]?.embedding, embedding);
    }
    t.notSame(plain.data[0]?.embedding, plain.data[1]?.embedding);
    t.same(plain.usage, { prompt_tokens: 2, total_tokens: 2 });
  }),
);

t.test("the same text is the same vector, in the requested size", (t) =>
  withSdks(t, protocol, async (t, client) => {
    const vectorOf = async (dimensions: number) =>
      (await client.embeddings.create({ model: "echo", input: "one", dimensions })).data[0]?.embedding ?? [];
    for (const size of [1, 33, 256]) t.equal((await vectorOf(size)).length, size);
    t.same(await vectorOf(33), await vectorOf(33));
  }),
);

t.test("token lists are accepted too", async (t) => {
  const dataOf = (input: unknown) => {
    const { frames } = demoOf(protocol, "/v1/embeddings", { model: "echo", input });
    return JSON.parse(String(frames[0]?.bytes));
  };
  t.equal(dataOf([1, 2, 3]).data.length, 1);
  t.equal(dataOf([1, 2, 3]).usage.prompt_tokens, 3);
  t.equal(dataOf([[1, 2, 3], [4]]).data.length, 2);
  t.same(dataOf([]).data, []);
});

t.test("too many vectors at once are refused, and a long text takes no longer for many dimensions", async (t) => {
  const answerOf = (members: object) => demoOf(protocol, "/v1/embeddings", { model: "echo", ...members });
  const refused = answerOf({ input: Array(100_000).fill("a"), dimensions: 4096 });
  t.equal(refused.status, 400);
  t.match(JSON.parse(String(refused.frames[0]?.bytes)), {
    error: { param: "input", message: /100000 vectors of 4096/ },
  });
  t.equal(answerOf({ input: Array(2048).fill("a") }).status, 200);
  const began = process.cpuUsage();
  t.equal(answerOf({ input: "a".repeat(5_000_000), dimensions: 4096 }).status, 200);
  t.ok(process.cpuUsage(began).user < 1_000_000);
});
