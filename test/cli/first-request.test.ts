import t from "tap";
import { chooseTrialModel, curlLines } from "../../src/cli/first-request.ts";
import type { Config } from "../../src/config/types.ts";

t.test("the printed curl command runs as it is, whatever the model's name", async (t) => {
  t.match(curlLines("http://h", "k", "it's").join("\n"), `'{"model":"it'\\''s",`);
});

t.test("the suggested model responds to text, and its provider is enabled", async (t) => {
  const model = (id: string, provider = "up", can?: string[]) => ({
    ...{ id, targets: [{ provider, model: id, weight: 1 }] },
    ...(can && { can }),
  });
  const of = (...models: ReturnType<typeof model>[]) =>
    chooseTrialModel({
      models,
      providers: [
        { name: "up", url: new URL("https://api.openai.com/v1") },
        { name: "off", url: new URL("https://a.example"), off: "NAME is not set" },
        { name: "demo", url: "demo:" },
      ],
    } as unknown as Pick<Config, "models" | "providers">);
  t.equal(await of(model("text-embedding-3-small"), model("gpt-5.4-mini")), "gpt-5.4-mini", "as in the public tables");
  t.equal(await of(model("own-embedder"), model("own")), "own", "of two unknown models, by the name");
  t.equal(await of(model("a", "up", ["images"]), model("b", "off"), model("c", "demo")), "c");
  t.equal(await of(model("only-embeds")), "only-embeds", "better than none");
  t.equal(await of(model("b", "off")), undefined);
});
