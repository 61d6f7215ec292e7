import type { Browser, Locator, Page } from "playwright-core";
import t, { type Test } from "tap";
import { looksOf, noBrowser, openBrowser } from "../support/browser.ts";
import { KEY, type Running, startGateway } from "../support/gateway.ts";
import { until } from "../support/until.ts";

const YAML = `
providers:
  demo: { url: "demo:" }
  claude: { url: "http://127.0.0.1:9/v1", protocol: anthropic-messages }
models:
  echo: { name: Echo, description: Says what you said, context: 128k, price: { input: 1, output: 2 }, targets: [demo:echo] }
  thinker: { can: [reasoning], targets: [demo:reasoning] }
  caller: { can: [tools], price: { input: 3, output: 15 }, targets: [demo:tool] }
  slow: { targets: [demo:slow] }
  gone: { targets: [claude:gone] }
  long: { targets: [demo:long] }
  acme/sage: { name: Acme Sage, context: 1M, targets: [claude:claude-opus-5], fallback: [echo] }
`;

let browser: Browser | undefined;
if (!noBrowser) browser = await openBrowser();
t.teardown(() => browser?.close());

/** A page at a gateway; what the browser complains of fails the test. */
async function at(t: Test, { url }: Running, path: string): Promise<Page> {
  const context = await (browser as Browser).newContext({ viewport: { width: 1280, height: 800 } });
  t.teardown(() => context.close());
  const page = await context.newPage();
  page.on("console", (line) => line.type() === "error" && t.fail(`the browser logs: ${line.text()}`));
  page.on("pageerror", (error) => t.fail(error.message));
  await page.goto(url + path, { waitUntil: "networkidle" });
  return page;
}

const options = { skip: noBrowser };

t.test("every page of the marketplace has a correct layout, wide and narrow, light and dark", options, async (t) => {
  const gateway = await startGateway(t, YAML);
  for (const path of ["/", "/models/acme/sage", "/play?a=echo&b=thinker"]) {
    const page = await at(t, gateway, path);
    for (const { where, faults, overflow } of await looksOf(page)) {
      t.same(faults, [], `${path} ${where}: axe finds nothing serious`);
      t.ok(overflow <= 0, `${path} ${where}: nothing is wider than the window`);
    }
    await page.context().close();
  }
});

t.test("a page requests once what it shows", options, async (t) => {
  const gateway = await startGateway(t, YAML);
  for (const path of ["/", "/models/acme/sage", "/play"]) {
    const page = await at(t, gateway, path);
    const asked: string[] = [];
    page.on("request", (request) => asked.push(new URL(request.url()).pathname));
    await page.reload({ waitUntil: "networkidle" });
    t.equal(asked.filter((each) => each === "/pages/models.json").length, 1, path);
    await page.context().close();
  }
});

t.test("a search and filters are in the address, so that a link shows the same", options, async (t) => {
  const gateway = await startGateway(t, YAML);
  const page = await at(t, gateway, "/");
  await page.getByRole("table").waitFor();
  t.equal(await page.locator("tbody tr").count(), 7);
  await page.keyboard.press("/");
  await page.keyboard.type("claude-opus");
  await page.locator("tbody tr").nth(1).waitFor({ state: "detached" });
  t.same(await page.locator("tbody .slug code").allInnerTexts(), ["acme/sage"], "also by the vendor's name");
  t.equal(new URL(page.url()).search, "?q=claude-opus");
  await page.getByLabel("Search").fill("");
  await page.getByRole("button", { name: "tools" }).click();
  await page.getByLabel("Price in at most").selectOption("3");
  const other = await at(t, gateway, new URL(page.url()).pathname + new URL(page.url()).search);
  await other.getByRole("table").waitFor();
  t.same(await other.locator("tbody .name").allInnerTexts(), ["caller"]);
  t.equal(await other.locator("tbody .slug code").count(), 0, "an id that is the name is not repeated");
  await other.getByRole("link", { name: "all of them" }).click();
  t.equal(await other.locator("tbody tr").count(), 7);
});

t.test("of 5,000 models 200 are drawn at once, and all are searched", options, async (t) => {
  const gateway = await startGateway(t, YAML);
  const page = await at(t, gateway, "/models");
  await page.route("**/pages/models.json", async (route) => {
    const facts = (await (await route.fetch()).json()) as { models: { id: string }[] };
    const models = Array.from({ length: 5000 }, (_, n) => ({ ...facts.models[0], id: `m${n}`, name: `Model ${n}` }));
    await route.fulfill({ json: { ...facts, models } });
  });
  await page.goto(`${gateway.url}/`);
  const rows = page.locator("tbody tr");
  await rows.nth(199).waitFor();
  t.equal(await rows.count(), 200);
  t.match(await page.getByText(/of 5,000$/).innerText(), "200 of 5,000");
  await page.getByRole("button", { name: "Show more" }).click();
  await rows.nth(399).waitFor();
  t.equal(await rows.count(), 400);
  await page.getByLabel("Search").fill("m4999");
  await rows.nth(1).waitFor({ state: "detached" });
  t.same(await page.locator("tbody .slug code").allInnerTexts(), ["m4999"]);
  t.equal(await page.getByRole("button", { name: "Show more" }).count(), 0);
});

t.test("the pages work in a browser that denies them storage", options, async (t) => {
  const page = await at(t, await startGateway(t, YAML), "/");
  await page.addInitScript(`for (const name of ["localStorage", "sessionStorage"])
    Object.defineProperty(globalThis, name, { get: () => { throw new DOMException("denied", "SecurityError"); } });`);
  await page.goto(page.url().replace(/\/$/, "/play?a=echo"));
  await page.getByLabel("Theme").selectOption("dark");
  t.equal(await page.evaluate("document.documentElement.dataset.theme"), "dark");
  await page.getByLabel("Key", { exact: true }).fill(KEY);
  await page.getByLabel("keep in this tab").check();
  await page.getByLabel(/^Message/).fill("Hello");
  await page.getByRole("button", { name: "Send" }).click();
  await page.getByText(/^whole/).waitFor();
});

t.test("texts are copied on plain http too, where browsers have no clipboard API", options, async (t) => {
  const page = await at(t, await startGateway(t, YAML), "/");
  await page.addInitScript("Object.defineProperty(navigator, 'clipboard', { value: undefined })");
  await page.goto(page.url().replace(/\/$/, "/models/acme/sage"));
  const button = page.getByRole("button", { name: "Copy the id" });
  await button.click();
  await button.getByText("Copied").waitFor();
  const key = page.getByLabel("Key", { exact: true });
  await key.focus();
  await page.keyboard.press("ControlOrMeta+V");
  t.equal(await key.inputValue(), "acme/sage");
});

t.test("a model's page is found by a name that fits an alias", options, async (t) => {
  const yaml = YAML.replace("slow: {", "slow: { aliases: [claude-haiku-*],").replace(
    "long: {",
    "long: { aliases: ['claude-*'],",
  );
  const page = await at(t, await startGateway(t, yaml), "/models/claude-haiku-4-5");
  t.equal(await page.locator("h1").innerText(), "slow");
});

t.test("a model's page has client settings with this address and the entered key", options, async (t) => {
  const gateway = await startGateway(t, YAML);
  const page = await at(t, gateway, "/models/echo?client=Claude+Code");
  const shell = page.getByRole("region", { name: "Claude Code in a shell" });
  t.match(await shell.innerText(), new RegExp(`ANTHROPIC_BASE_URL=${gateway.url}\n.*AUTH_TOKEN=YOUR_KEY`));
  await page.getByLabel("Key", { exact: true }).fill(KEY);
  t.match(await shell.innerText(), `ANTHROPIC_AUTH_TOKEN=${KEY}`);
  t.notMatch(page.url(), KEY);
  t.equal(await page.evaluate("JSON.stringify({ ...localStorage, ...sessionStorage })"), "{}", "it is in memory alone");
  await page.getByLabel("keep in this tab").check();
  t.match(await page.evaluate("JSON.stringify({ ...sessionStorage })"), KEY);
  t.equal(await page.evaluate("JSON.stringify({ ...localStorage })"), "{}");
});

t.test("a model's page has links that set up chat apps, with the key only once it is entered", options, async (t) => {
  const gateway = await startGateway(t, YAML);
  const page = await at(t, gateway, "/models/echo?client=Chatbox");
  const settings = async (name: string, parameter: string) => {
    const url = new URL((await page.getByRole("link", { name }).getAttribute("href")) ?? "");
    return { scheme: url.protocol, json: Buffer.from(url.searchParams.get(parameter) ?? "", "base64").toString() };
  };
  const without = await settings("Set up Chatbox", "config");
  t.match(without, { scheme: "chatbox:", json: `"apiHost":"${gateway.url}"` });
  t.notMatch(without.json, /apiKey/);
  await page.getByLabel("Client").selectOption("Cherry Studio");
  await page.getByText("Type your key for a link that sets up Cherry Studio").waitFor();
  await page.getByLabel("Key", { exact: true }).fill(KEY);
  const json = new RegExp(`"baseUrl":"${gateway.url}","apiKey":"${KEY}"`);
  t.match(await settings("Set up Cherry Studio", "data"), { scheme: "cherrystudio:", json });
});

for (const protocol of ["openai-chat", "openai-responses", "anthropic-messages", "gemini"])
  t.test(`the playground streams ${protocol} of two models side by side`, options, async (t) => {
    const gateway = await startGateway(t, YAML);
    const page = await at(t, gateway, `/play?a=caller&b=echo&protocol=${protocol}`);
    await page.getByLabel("Key", { exact: true }).fill(KEY);
    await page.getByText("System, tools, longest answer").click();
    await page.getByRole("button", { name: "An example of a tool" }).click();
    await page.getByLabel(/^Message/).fill("Hello from the page");
    await page.keyboard.press("Control+Enter");
    const [caller, echo] = [
      page.getByRole("region", { name: "caller", exact: true }),
      page.getByRole("region", { name: "echo", exact: true }),
    ];
    await echo.getByText(/^whole/).waitFor();
    await caller.getByText(/^whole/).waitFor();
    t.match(await echo.locator(".verbatim").innerText(), "Hello from the page");
    t.match(await caller.locator(".card").innerText(), "weather");
    const topOf = (locator: Locator) => locator.evaluate((each) => each.getBoundingClientRect().top);
    t.ok((await topOf(page.locator(".turn"))) < (await topOf(echo)), "the question is above its answers");
    t.match(
      await echo.getByRole("status").innerText(),
      /first [\d.]+ m?s.* [1-9]\d* in, [1-9]\d* out · (?:about )?\$0\.0/,
    );
    await echo.getByText(/^Events \(/).click();
    t.ok((await echo.locator(".events div").count()) > 1, "the events are shown unchanged");
    await echo.getByText("As curl").click();
    const curl = await echo.locator("pre").innerText();
    t.match(curl, gateway.url);
    t.notMatch(curl, KEY);
  });

/** What is asked of a model, as its conversation: the role and the text of each turn. */
function asks(page: Page): { model: string; turns: string[] }[] {
  const found: { model: string; turns: string[] }[] = [];
  page.on("request", (request) => {
    if (request.method() !== "POST") return;
    const { model, messages } = request.postDataJSON() as { model: string; messages: Record<string, string>[] };
    found.push({ model, turns: messages.map(({ role, content }) => `${role}: ${content}`) });
  });
  return found;
}

async function send(page: Page, text: string): Promise<void> {
  await page.getByLabel(/^Message/).fill(text);
  await page.getByRole("button", { name: "Send" }).click();
}

t.test("each model of the playground continues with its own answers", options, async (t) => {
  const gateway = await startGateway(t, YAML);
  const page = await at(t, gateway, "/play?a=echo&b=long");
  const asked = asks(page);
  const said: Record<string, string> = {};
  await page.getByLabel("Key", { exact: true }).fill(KEY);
  await send(page, "the first");
  for (const model of ["echo", "long"]) {
    const pane = page.getByRole("region", { name: model, exact: true });
    await pane.getByText(/^whole/).waitFor();
    said[model] = await pane.locator(".verbatim").innerText();
  }
  t.not(said["echo"], said["long"]);
  await send(page, "the second");
  await until(() => asked.length >= 4);
  for (const model of ["echo", "long"]) {
    t.same(
      asked.filter((each) => each.model === model).map(({ turns }) => turns),
      [["user: the first"], ["user: the first", `assistant: ${said[model]}`, "user: the second"]],
      model,
    );
    const transcript = page.locator(".panes > .turn").filter({ hasText: said[model] as string });
    t.match(await transcript.first().innerText(), new RegExp(`^${model}\n`), "the transcript names the model");
  }
  const echo = page.getByRole("region", { name: "echo", exact: true });
  await echo.getByText(/^whole/).waitFor();
  await echo.getByText("As curl").click();
  const curl = await echo.getByRole("region", { name: "curl for echo" }).innerText();
  const body = JSON.parse(curl.slice(curl.indexOf("-d '") + 4, -1)) as { messages: { content: string }[] };
  t.equal(body.messages.length, 3, "the request that was sent, not the next one");
  t.equal(body.messages.at(-1)?.content, "the second");
  t.match(await echo.getByRole("list", { name: "Headers of echo" }).innerText(), /gateway-target: demo:echo\n/);
  await page.getByRole("button", { name: "New conversation" }).click();
  await send(page, "the third");
  await until(() => asked.length >= 6);
  t.same(asked.at(-1)?.turns, ["user: the third"]);
});

t.test("a question that failed, or had a tool call for an answer, is sent again with the next", options, async (t) => {
  const gateway = await startGateway(t, YAML);
  const page = await at(t, gateway, "/play?a=caller&b=gone");
  page.removeAllListeners("console");
  const asked = asks(page);
  await page.getByLabel("Key", { exact: true }).fill(KEY);
  await page.getByText("System, tools, longest answer").click();
  await page.getByRole("button", { name: "An example of a tool" }).click();
  await send(page, "the first");
  await page
    .getByRole("region", { name: "caller", exact: true })
    .getByText(/^whole/)
    .waitFor();
  await page
    .getByRole("region", { name: "gone", exact: true })
    .getByText(/^failed/)
    .waitFor();
  await send(page, "the second");
  await until(() => asked.length >= 4);
  for (const { model, turns } of asked.slice(2)) t.same(turns, ["user: the first\n\nthe second"], model);
  const caller = page.locator(".panes > .turn").filter({ hasText: /^caller/ });
  t.match(await caller.innerText(), /calls weather\s+Not sent on.*: no text/);
  t.match(await page.locator(".panes > .turn").filter({ hasText: /^gone/ }).innerText(), /Not sent on.*: failed/);
});

t.test("a model that is selected later receives the questions from then on", options, async (t) => {
  const gateway = await startGateway(t, YAML);
  const page = await at(t, gateway, "/play?a=echo");
  const asked = asks(page);
  await page.getByLabel("Key", { exact: true }).fill(KEY);
  await page.getByText("As curl").click();
  await page.getByLabel(/^Message/).fill("a draft");
  t.match(await page.getByRole("region", { name: "curl for echo" }).innerText(), /"content":"a draft"/);
  await send(page, "the first");
  await page.getByText(/^whole/).waitFor();
  await page.getByLabel("Beside it").selectOption("thinker");
  await page.getByRole("region", { name: "thinker", exact: true }).waitFor();
  await send(page, "the second");
  await until(() => asked.length >= 3);
  t.same(
    asked.map(({ model, turns }) => `${model} ${turns.length}`),
    ["echo 1", "echo 3", "thinker 1"],
  );
});

t.test("Stop in the playground ends the request at the gateway", options, async (t) => {
  const gateway = await startGateway(t, YAML);
  const page = await at(t, gateway, "/play?a=slow");
  await page.getByLabel("Key", { exact: true }).fill(KEY);
  await page.getByLabel(/^Message/).fill("one two three four five six seven eight");
  await page.getByRole("button", { name: "Send" }).click();
  await page.getByRole("button", { name: "Stop" }).click();
  await page.getByText(/^stopped/).waitFor();
  const ended = () => gateway.log.lines.find(({ message }) => message === "exchange");
  await until(() => ended() !== undefined);
  t.equal(ended()?.fields["outcome"], "aborted");
});

t.test("browsers do not check the spelling of keys and JSON, which some do at their makers'", options, async (t) => {
  const gateway = await startGateway(t, YAML);
  const page = await at(t, gateway, "/play");
  await page.getByText("System, tools, longest answer").click();
  for (const field of [page.getByLabel("Key", { exact: true }), page.locator("textarea.mono")])
    t.equal(await field.getAttribute("spellcheck"), "false");
});

t.test("a wrong key is reported in the gateway's own words", options, async (t) => {
  const gateway = await startGateway(t, YAML);
  const context = await (browser as Browser).newContext();
  t.teardown(() => context.close());
  const page = await context.newPage();
  await page.goto(`${gateway.url}/play?a=echo`);
  await page.getByLabel("Key", { exact: true }).fill("gw_wrong");
  await page.getByLabel(/^Message/).fill("Hello");
  await page.getByRole("button", { name: "Send" }).click();
  t.match(await page.getByRole("alert").innerText(), /key/i);
});

t.test(
  "an answer of a proxy in front is shown as what it is, and not as a whole answer without text",
  options,
  async (t) => {
    const page = await at(t, await startGateway(t, YAML), "/play?a=echo&protocol=openai-chat");
    await page.route("**/v1/chat/completions", (route) =>
      route.fulfill({ contentType: "text/html", body: "<html>Sign in to the network</html>" }),
    );
    await page.getByLabel("Key", { exact: true }).fill(KEY);
    await page.getByLabel(/^Message/).fill("Hello");
    await page.getByRole("button", { name: "Send" }).click();
    t.equal(await page.getByRole("alert").innerText(), "The answer is no stream: 200 text/html");
  },
);
