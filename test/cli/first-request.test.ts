import t from "tap";
import { curlLines, trialModels } from "../../src/cli/first-request.ts";
import type { Config } from "../../src/config/types.ts";

t.test("the printed curl command runs as it is, whatever the model's name", async (t) => {
  t.match(curlLines("http://h", "k", "it's").join("\n"), `'{"model":"it'\\''s",`);
});

t.test("the suggested model responds to text, and its provider is enabled", async (t) => {
  const model = (id: string, provider = "up", can?: string[]) => ({
    ...{ id, targets: [{ provider, model: id, weight: 1 }] },
    ...(can && { can }),
  });
  const choose = (...models: ReturnType<typeof model>[]) =>
    trialModels({
      models,
      providers: [
        { name: "up", url: new URL("https://api.openai.com/v1"), speaks: ["openai-chat"] },
        { name: "claude", url: new URL("https://api.anthropic.com/v1"), speaks: ["anthropic-messages"] },
        { name: "off", url: new URL("https://a.example"), off: "NAME is not set", speaks: ["anthropic-messages"] },
        { name: "demo", url: "demo:", speaks: ["openai-chat", "anthropic-messages"] },
      ],
    } as unknown as Pick<Config, "models" | "providers">);
  const of = async (...models: ReturnType<typeof model>[]) => (await choose(...models))();
  t.equal(await of(model("text-embedding-3-small"), model("gpt-5.4-mini")), "gpt-5.4-mini", "as in the public tables");
  t.equal(await of(model("own-embedder"), model("own")), "own", "of two unknown models, by the name");
  t.equal(await of(model("a", "up", ["images"]), model("b", "off"), model("c", "demo")), "c");
  t.equal(await of(model("only-embeds")), "only-embeds", "better than none");
  t.equal(await of(model("b", "off")), undefined);
  const chosen = await choose(model("echo", "demo"), model("gpt"), model("off", "off"), model("sonnet", "claude"));
  t.equal(chosen("anthropic-messages"), "sonnet", "an agent gets a model of its own protocol");
  t.equal(chosen("gemini"), "echo", "the first one if there is none");
  t.equal((await choose(model("gpt"), model("echo", "demo")))("anthropic-messages"), "gpt", "but not the built-in one");
});
