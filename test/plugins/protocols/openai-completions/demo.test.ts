import t from "tap";
import protocol from "../../../../plugins/protocols/openai-completions/index.ts";
import { collect, withSdks } from "../../../support/openai-sdks.ts";

t.test("streamed or whole, the SDKs read the same from every model", (t) =>
  withSdks(t, protocol, async (t, client) => {
    for (const model of ["echo", "tool", "reasoning", "image", "long"]) {
      const ask = { model, prompt: "Once upon a time" };
      const whole = await client.completions.create(ask);
      const { items, error } = await collect(
        await client.completions.create({ ...ask, stream: true, stream_options: { include_usage: true } }),
      );
      t.equal(error, undefined, model);
      t.equal(items.map(({ choices }) => choices[0]?.text ?? "").join(""), whole.choices[0]?.text);
      t.equal(items.findLast(({ choices }) => choices.length > 0)?.choices[0]?.finish_reason, "stop");
      t.same(items.at(-1)?.usage, whole.usage);
      t.ok((whole.usage?.completion_tokens ?? 0) > 0);
    }
  }),
);

t.test("echo repeats the prompt, also as a list", (t) =>
  withSdks(t, protocol, async (t, client) => {
    const textOf = async (prompt: string | string[]) =>
      (await client.completions.create({ model: "echo", prompt })).choices[0]?.text;
    t.equal(await textOf("one two"), "one two");
    t.equal(await textOf(["one two"]), "one two");
  }),
);

t.test("a token limit ends the text with the reason length", (t) =>
  withSdks(t, protocol, async (t, client) => {
    const { choices, usage } = await client.completions.create({ model: "long", prompt: "", max_tokens: 5 });
    t.equal(choices[0]?.finish_reason, "length");
    t.equal(usage?.completion_tokens, 5);
  }),
);
