import t from "tap";
import { TOKEN } from "../admin/support.ts";
import { noBrowser } from "../support/browser.ts";
import { CONSOLE_YAML, consolePage, startConsole, traffic } from "../support/console.ts";
import { until } from "../support/until.ts";

const options = { skip: noBrowser };
const STREAM = "**/api/live/events";

t.test("a stream of running requests that a proxy refuses is requested again", options, async (t) => {
  const gateway = await startConsole(t);
  const page = await consolePage(t, gateway, "/audit", true);
  await page.clock.install();
  let refusals = 0;
  await page.route(STREAM, (route) => {
    refusals++;
    return route.fulfill({ status: 502, contentType: "text/html", body: "<html>502 Bad Gateway</html>" });
  });
  await page.goto(gateway.base);
  await page.getByText("They are requested again.").first().waitFor();
  await page.getByText("Requests a second").waitFor();
  t.ok(refusals > 0);
  await page.unroute(STREAM);
  await page.clock.fastForward(5000);
  await page.getByRole("heading", { name: "Errors of the last hour" }).waitFor();
  await page.getByText("They are requested again.").first().waitFor({ state: "detached" });
  await page.getByText("No error in the last hour.").waitFor();
});

t.test("a stream of running requests that has fallen silent is opened again", options, async (t) => {
  const gateway = await startConsole(t);
  const page = await consolePage(t, gateway, "/audit");
  await page.clock.install();
  let streams = 0;
  await page.route(STREAM, () => {
    streams++;
  });
  await page.goto(gateway.base);
  await until(() => streams === 1);
  await page.clock.fastForward(30_000);
  await until(() => streams === 2);
  await page.getByText("The gateway has sent nothing for 30 seconds.").first().waitFor();
});

t.test("a hidden page does not take one of the browser's few connections to the gateway", options, async (t) => {
  const gateway = await startConsole(t);
  const page = await consolePage(t, gateway, "/");
  await page.getByText("Requests a second").waitFor();
  const show = (hidden: boolean) =>
    page.evaluate(
      `Object.defineProperty(document, "hidden", { value: ${hidden}, configurable: true });
       document.dispatchEvent(new Event("visibilitychange"))`,
    );
  const ended = page.waitForEvent("requestfailed", (request) => request.url().endsWith("/api/live/events"));
  await show(true);
  await ended;
  const opened = page.waitForRequest(STREAM);
  await show(false);
  await opened;
});

t.test("a page that is hidden while it loads takes none either", options, async (t) => {
  const gateway = await startConsole(t);
  const page = await consolePage(t, gateway, "/audit");
  const loading: (() => Promise<void>)[] = [];
  await page.route("**/console/app.js*", (route) => void loading.push(() => route.continue()));
  const opened = page.waitForRequest(STREAM);
  const ended = page.waitForEvent("requestfailed", (request) => request.url().endsWith("/api/live/events"));
  await page.goto(gateway.base, { waitUntil: "commit" });
  await opened;
  await page.evaluate(
    `Object.defineProperty(document, "hidden", { value: true, configurable: true });
     document.dispatchEvent(new Event("visibilitychange"))`,
  );
  await ended;
  await page.evaluate(`Object.defineProperty(document, "hidden", { value: false, configurable: true })`);
  for (const load of loading) await load();
  await page.getByText("Requests a second").waitFor();
});

t.test("a filter that the gateway refuses shows no requests that it does not fit", options, async (t) => {
  const gateway = await startConsole(t);
  await traffic(gateway);
  const page = await consolePage(t, gateway, "/requests", true);
  const rows = page.getByRole("table", { name: "Requests" }).locator("tbody tr");
  await rows.first().waitFor();
  await page.getByLabel("Status").fill("many");
  await page.getByLabel("Status").press("Enter");
  t.match(await page.getByRole("alert").innerText(), /status takes one of 100 to 599/);
  t.equal(await rows.count(), 0);
});

t.test("the way back from one request to another shows that one", options, async (t) => {
  const gateway = await startConsole(t);
  const ended = await gateway.askModel("echo");
  await gateway.gateway.stores.ledger.flush();
  const answer = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: "Bearer other-key-0123456789abcdef", "content-type": "application/json" },
    body: JSON.stringify({
      model: "slow",
      stream: true,
      messages: [{ role: "user", content: "one two three ".repeat(30) }],
    }),
  });
  t.teardown(() => answer.body?.cancel());
  const page = await consolePage(t, gateway, `/requests/${ended}`);
  await page.getByRole("link", { name: "Requests" }).first().click();
  await page.getByPlaceholder("x-request-id").fill(answer.headers.get("x-request-id") ?? "");
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Cancel" }).waitFor();
  // So that its state is requested once more.
  await page.waitForResponse((response) => response.url().includes(answer.headers.get("x-request-id") ?? ""));
  await page.evaluate("history.go(-2)");
  await page.locator("dl.facts").waitFor();
  t.equal(await page.getByRole("button", { name: "Cancel" }).count(), 0);
  t.match(page.url(), ended);
});

t.test("a sign-out that fails is reported", options, async (t) => {
  const gateway = await startConsole(t, `${CONSOLE_YAML}admin: { listen: 127.0.0.1:0, token: $ADMIN_TOKEN }\n`);
  const page = await consolePage(t, gateway, "/money", true);
  await page.getByLabel("Token").fill(TOKEN);
  await page.getByRole("button", { name: "Sign in with the token" }).click();
  // The sign-in is a request to the same path.
  await page.getByRole("button", { name: "Sign out" }).waitFor();
  await page.route("**/api/session", (route) =>
    route.fulfill({ status: 503, json: { error: { code: "unavailable", message: "The store cannot answer." } } }),
  );
  await page.getByRole("button", { name: "Sign out" }).click();
  t.equal((await page.locator("header").getByRole("alert").innerText()).trim(), "The store cannot answer.");
});

t.test("a page that cannot be shown says so, and leaves the others", options, async (t) => {
  const gateway = await startConsole(t);
  const page = await consolePage(t, gateway, "/money");
  await page.route("**/api/audit*", (route) => route.fulfill({ json: { entries: null } }));
  page.removeAllListeners("pageerror");
  await page.getByRole("link", { name: "Audit" }).click();
  t.match(await page.getByRole("alert").innerText(), /^This page cannot be shown: /);
  await page.getByRole("link", { name: "Money" }).click();
  await page.getByText("Spent today").waitFor();
});

t.test("a model that the file just lost leaves the page of providers as it is", options, async (t) => {
  const gateway = await startConsole(t);
  const page = await consolePage(t, gateway, "/audit");
  await page.route("**/api/models", async (route) => {
    const json = await (await route.fetch()).json();
    for (const model of json.models) if (model.id === "slow") model.written = {};
    await route.fulfill({ json });
  });
  await page.goto(`${gateway.base}/providers`);
  await page.getByRole("button", { name: "Take demo out of its models" }).click();
  await page.getByText("Nobody else serves").waitFor();
});
