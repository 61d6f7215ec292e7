import { readFileSync, writeFileSync } from "node:fs";
import t from "tap";
import { parse, parseDocument } from "yaml";
import { looksOf, noBrowser } from "../support/browser.ts";
import { CONSOLE_YAML, consolePage, startConsole } from "../support/console.ts";

t.test(
  "a provider is removed from its models, and weights are changed, by lines that the file accepts",
  { skip: noBrowser },
  async (t) => {
    const yaml = CONSOLE_YAML.replace(
      "models:\n",
      "models:\n  shared: { output: 1k, balance: latency, price: { input: 1, output: 1 }, targets: [{ to: 'demo:echo', weight: 3 }, down:y], fallback: [echo] }\n",
    );
    const gateway = await startConsole(t, yaml);
    const page = await consolePage(t, gateway, "/providers");
    const file = `${gateway.folder}/gateway.yaml`;
    /** As a person pastes it: what the lines say takes the place of what is there. */
    const paste = async (lines: string) => {
      const whole = parseDocument(readFileSync(file, "utf8"));
      for (const [id, model] of Object.entries((parse(lines) as { models: Record<string, object> }).models))
        for (const [name, value] of Object.entries(model)) whole.setIn(["models", id, name], whole.createNode(value));
      writeFileSync(file, whole.toString());
      return (await gateway.gateway.reload()).changes.map(({ path }) => path);
    };
    const targetsOf = (id: string) =>
      gateway.gateway.generation.marketplace.models
        .find((model) => model.id === id)
        ?.targets.map(({ provider, model, weight }) => [`${provider.name}:${model}`, weight]);
    await page.getByRole("button", { name: "Change shared in gateway.yaml" }).click();
    const change = await page.getByRole("region", { name: "lines for gateway.yaml: shared" }).innerText();
    t.same(await paste(change), [], "as it is now");
    await paste(change.replace("weight: 3", "weight: 9"));
    t.same(targetsOf("shared"), [
      ["demo:echo", 9],
      ["down:y", 1],
    ]);
    await page.reload();
    await page.getByRole("button", { name: "Take down out of its models" }).click();
    const out = await page.getByRole("region", { name: "lines for gateway.yaml: without down" }).innerText();
    t.match(await page.getByText(/^Nobody else serves/).innerText(), "fragile", "one has no other");
    await paste(out);
    t.same(targetsOf("shared"), [["demo:echo", 9]]);
    for (const { where, faults, overflow } of await looksOf(page)) {
      t.same(faults, [], `${where}: axe finds nothing serious`);
      t.ok(overflow <= 0, `${where}: nothing is wider than the window`);
    }
  },
);

t.test(
  "a target in its rest period can be tried at once, and a provider is switched off and on",
  { skip: noBrowser },
  async (t) => {
    const yaml = CONSOLE_YAML.replace("down: { ", "down: { health: { failures: 1 }, ");
    const gateway = await startConsole(t, yaml);
    await gateway.askModel("fragile");
    const page = await consolePage(t, gateway, "/providers");
    const down = page.getByRole("region", { name: "down", exact: true });
    await down.getByText(/suspended/).waitFor();
    await down.getByRole("button", { name: "Try now down:x", exact: true }).click();
    await down.getByText("being tried").waitFor();
    page.on("dialog", (dialog) => void dialog.accept());
    await down.getByRole("button", { name: "Switch off down", exact: true }).click();
    await down.getByText(/This gateway sends nothing there until it is switched on/).waitFor();
    for (const { where, faults, overflow } of await looksOf(page)) {
      t.same(faults, [], `${where}: axe finds nothing serious`);
      t.ok(overflow <= 0, `${where}: nothing is wider than the window`);
    }
    await down.getByRole("button", { name: "Switch on down", exact: true }).click();
    await down.getByRole("button", { name: "Switch off down", exact: true }).waitFor();
    const entries = await gateway.gateway.stores.audit.list(10);
    t.same(
      entries.map(({ action, subject }) => `${action} ${subject}`),
      ["providers.on down", "providers.off down", "providers.try down:x"],
    );
  },
);

t.test("a model whose providers are off says so, where its targets would be", { skip: noBrowser }, async (t) => {
  const yaml = CONSOLE_YAML.replace("models:\n", "models:\n  lost: { targets: [away:x] }\n");
  const page = await consolePage(t, await startConsole(t, yaml), "/providers");
  const row = page.getByRole("row").filter({ has: page.getByText("lost", { exact: true }) });
  await row.getByText("off, as its providers are").waitFor();
});
