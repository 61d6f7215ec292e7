import t from "tap";
import { TOKEN, VIEWER } from "../admin/support.ts";
import { faultsOf, noBrowser } from "../support/browser.ts";
import { CONSOLE_YAML, columnOf, consolePage, startConsole, traffic } from "../support/console.ts";
import { plainEntry } from "../support/plain-entry.ts";

const options = { skip: noBrowser };
/** With a console that asks for a token. */
const SIGN_IN = `${CONSOLE_YAML}admin: { listen: 127.0.0.1:0, token: $ADMIN_TOKEN, viewer: $VIEWER_TOKEN }\n`;

t.test(
  "a page requests each of its figures from the API once, though its header shows them too",
  options,
  async (t) => {
    const gateway = await startConsole(t);
    const paths = [
      "/requests?key=a+b&status=5xx&dearer=0.5",
      "/money?since=30d&by=key",
      "/money",
      "/keys",
      "/config",
      "/audit",
    ];
    for (const path of paths) {
      const page = await consolePage(t, gateway, path);
      // What the page still asks for would be counted with what it asks for once it is loaded anew.
      await page.waitForLoadState("networkidle");
      const asked: string[] = [];
      page.on("request", (request) => {
        const { pathname, search } = new URL(request.url());
        if (pathname.startsWith("/api/")) asked.push(pathname + search);
      });
      await page.reload({ waitUntil: "networkidle" });
      t.ok(asked.length >= 2, path);
      t.same(asked.toSorted(), [...new Set(asked)].sort(), path);
      await page.context().close();
    }
  },
);

t.test("one exchange is shown by its id, with each attempt on a timeline", options, async (t) => {
  const gateway = await startConsole(t);
  const id = await traffic(gateway);
  const page = await consolePage(t, gateway, "/requests");
  await page.getByPlaceholder("x-request-id").fill(id);
  await page.keyboard.press("Enter");
  const line = page.getByRole("table", { name: "What the time went to" });
  await line.waitFor();
  const [first, ...parts] = await line.locator("tbody th").allInnerTexts();
  t.equal(first, "the gateway");
  // A pause between the attempts is the gateway's too, on a machine that has much to do.
  t.same(
    parts.filter((part) => part !== first),
    ["down:x", "demo:echo", "demo:echo"],
  );
  t.match(await line.innerText(), /upstream_unreachable/);
  t.match(await page.locator("dl.facts").innerText(), /acme\/research/);
  t.equal(new URL(page.url()).pathname, `/requests/${id}`);
});

t.test("a refused request shows why, and a failed attempt too", options, async (t) => {
  const gateway = await startConsole(t);
  const id = await traffic(gateway);
  const refused = (await gateway.gateway.stores.ledger.search({ limit: 1, outcome: "rejected" }))[0]?.id;
  const page = await consolePage(t, gateway, `/requests/${refused}`);
  t.match(await page.locator("dl.facts").innerText(), /Why\s+rate_limit_exceeded: .*2 requests/);
  await page.goto(`${gateway.base}/requests/${id}`);
  const line = page.getByRole("table", { name: "What the time went to" });
  await line.waitFor();
  t.match(await line.innerText(), /The provider could not be reached/);
});

t.test("a provider whose failure a fallback hid is shown at once", options, async (t) => {
  const gateway = await startConsole(t);
  await traffic(gateway);
  const page = await consolePage(t, gateway, "/");
  t.match(await columnOf(page, "Failed attempts by target", "Answered"), { "down:x": "nothing" });
  const [attempts, good] = [
    await columnOf(page, "Failed attempts by target", "Attempts"),
    await columnOf(page, "Failed attempts by target", "Recovered"),
  ];
  t.ok(Number(attempts["down:x"]) > 0);
  t.equal(good["down:x"], attempts["down:x"]);
  t.equal(good["demo:error-429"], "0");
});

t.test("filters of requests are in the address", options, async (t) => {
  const gateway = await startConsole(t);
  await traffic(gateway);
  const page = await consolePage(t, gateway, "/requests?status=429");
  const rows = page.getByRole("table", { name: "Requests" }).locator("tbody tr");
  await rows.first().waitFor();
  t.equal(await rows.count(), 2, "the gateway's own 429 and the provider's");
  await page.getByLabel("Outcome").selectOption("rejected");
  await rows.nth(1).waitFor({ state: "detached" });
  t.match(await rows.innerText(), /nobody was asked/);
  t.match(page.url(), /outcome=rejected/);
});

t.test("a running request is shown with its age and ended from the console", options, async (t) => {
  const gateway = await startConsole(t);
  const page = await consolePage(t, gateway, "/");
  const asked = gateway.askModel("slow", { text: "one two three four five six seven eight nine ten" });
  await page.getByRole("button", { name: "Cancel the request for slow" }).click();
  await asked;
  await gateway.gateway.stores.ledger.flush();
  const [entry] = await gateway.gateway.stores.ledger.recent(1);
  t.equal(entry?.outcome, "interrupted");
  await page.getByText("No request runs now.").waitFor();
  await page.goto(`${gateway.base}/audit`);
  t.match(await page.getByRole("table", { name: "Changes" }).innerText(), /requests\.cancel/);
});

t.test("a key is made, shown once, changed, switched off and revoked", options, async (t) => {
  const gateway = await startConsole(t);
  const page = await consolePage(t, gateway, "/keys");
  page.on("dialog", (dialog) => dialog.accept());
  await page.getByRole("button", { name: "Make a key" }).click();
  await page.getByLabel("Name").fill("phone");
  await page.getByLabel("Group").fill("acme");
  await page.getByLabel(/^Models/).fill("echo, thinker");
  await page.getByLabel("Requests a minute").fill("30");
  await page.getByLabel("Budget").fill("$5/day, $50/month");
  await page.getByRole("button", { name: "Make it" }).click();
  const secret = (await page.getByRole("region", { name: "the key of phone" }).innerText()).trim();
  t.match(secret, /^gw_/);
  await page.getByRole("button", { name: "I have it" }).click();
  t.notOk((await page.content()).includes(secret), "it is no longer shown anywhere");
  t.notMatch(page.url(), secret);
  const { id = "" } = (await gateway.gateway.stores.keys.show("phone")) ?? {};
  const shown = async () => (await gateway.gateway.stores.keys.list()).find((key) => key.id === id);
  t.match(await shown(), { group: "acme", models: ["echo", "thinker"], limits: { rpm: 30, budgets: Array } });
  await page.getByRole("button", { name: "Change phone" }).click();
  await page.getByLabel(/^Models/).fill("");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("form").waitFor({ state: "detached" });
  t.equal((await shown())?.models, undefined);
  await page.getByRole("button", { name: "Switch off phone" }).click();
  await page.getByRole("button", { name: "Switch on phone" }).waitFor();
  t.ok((await shown())?.disabled);
  await page.getByRole("button", { name: "Rotate phone" }).click();
  await page.getByRole("button", { name: "I have it" }).click();
  await page.getByRole("button", { name: "Revoke phone" }).click();
  await page.getByRole("button", { name: "Revoke phone" }).waitFor({ state: "detached" });
  t.ok((await shown())?.revoked);
  await page.goto(`${gateway.base}/audit`);
  const edited = page.getByRole("row", { name: /keys\.edit/ });
  t.match(await edited.innerText(), /models: echo, thinker →\s*now\s*not set/);
  t.notMatch(await edited.innerText(), /rpm/, "unchanged settings have no line");
  await edited.getByText("JSON").click();
  t.match(await edited.innerText(), /"was":\{/);
});

t.test("a form has the focus as soon as it is there, and does not take it later", options, async (t) => {
  const page = await consolePage(t, await startConsole(t), "/keys");
  const focused = await page.getByRole("button", { name: "Make a key" }).evaluate(
    (button: { click(): void }) =>
      new Promise((resolve) => {
        const { document, MutationObserver } = globalThis as unknown as {
          document: { body: unknown; querySelector(of: string): unknown; activeElement: { name?: string } };
          MutationObserver: new (seen: () => void) => { observe(node: unknown, options: object): void };
        };
        new MutationObserver(() => {
          if (document.querySelector("form.card")) resolve(document.activeElement.name);
        }).observe(document.body, { childList: true, subtree: true });
        button.click();
      }),
  );
  t.equal(focused, "name");
});

t.test("nothing is shown before the token is entered; a reader changes nothing", options, async (t) => {
  const gateway = await startConsole(t, SIGN_IN);
  const page = await consolePage(t, gateway, "/keys", true);
  t.same(await faultsOf(page), []);
  await page.keyboard.type("wrong-token-0123456789");
  await page.keyboard.press("Enter");
  t.match(await page.getByRole("alert").innerText(), /not known/);
  await page.getByLabel("Token").fill(VIEWER);
  await page.getByRole("button", { name: "Sign in with the token" }).click();
  await page.getByRole("table", { name: "Keys" }).waitFor();
  t.equal(await page.getByRole("button", { name: "Make a key" }).count(), 0);
  t.equal(await page.evaluate("document.cookie"), "", "no script reads the session");
  t.notMatch(await page.evaluate("JSON.stringify({ ...localStorage, ...sessionStorage })"), /token/);
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("Token").fill(TOKEN);
  await page.getByRole("button", { name: "Sign in with the token" }).click();
  await page.getByRole("button", { name: "Make a key" }).waitFor();
});

t.test(
  "a user who is not signed in is asked for the token, and no request is sent that would be refused",
  options,
  async (t) => {
    const gateway = await startConsole(t, SIGN_IN);
    for (const path of ["/", "/requests", "/money", "/providers", "/keys", "/config", "/audit"]) {
      const page = await consolePage(t, gateway, path);
      await page.getByLabel("Token").waitFor();
      const read = await page.evaluate<string[]>("performance.getEntriesByType('resource').map(({ name }) => name)");
      const asked = read.map((each) => new URL(each).pathname).filter((each) => each.startsWith("/api/"));
      t.same(asked, ["/api/session"], path);
      await page.context().close();
    }
  },
);

t.test("a page whose first script arrives last requests nothing twice", options, async (t) => {
  const gateway = await startConsole(t);
  for (const path of ["/", "/money"]) {
    const page = await consolePage(t, gateway, path);
    const { promise: shown, resolve: show } = Promise.withResolvers<void>();
    await page.route("**/console/first.js", (route) => shown.then(() => route.continue()));
    let asked: string[] = [];
    page.on("request", (request) => {
      const { pathname, search } = new URL(request.url());
      if (pathname.startsWith("/api/")) asked.push(pathname + search);
    });
    // The page before the reload may still request something until then.
    page.once("framenavigated", () => (asked = []));
    await page.reload({ waitUntil: "commit" });
    await page.locator("main h1").waitFor();
    show();
    await page.evaluate("import(document.querySelector('script[src$=\"console/first.js\"]').src)");
    t.ok(asked.length >= 2, path);
    t.same(asked.toSorted(), [...new Set(asked)].sort(), path);
    await page.context().close();
  }
});

t.test("a session that ends while a page is open asks for the token again", options, async (t) => {
  const gateway = await startConsole(t, SIGN_IN);
  const page = await consolePage(t, gateway, "/keys", true);
  await page.getByLabel("Token").fill(TOKEN);
  await page.getByRole("button", { name: "Sign in with the token" }).click();
  await page.getByRole("table", { name: "Keys" }).waitFor();
  await page.context().clearCookies();
  await page.getByRole("link", { name: "Audit" }).click();
  await page.getByLabel("Token").fill(TOKEN);
  await page.getByRole("button", { name: "Sign in with the token" }).click();
  await page.getByRole("heading", { name: "Audit" }).waitFor();
});

t.test(
  "a table of more rows than a window holds shows all of them, and older requests are on later pages",
  options,
  async (t) => {
    const many = Array.from({ length: 40 }, (_, n) => `k${n}: { key: many-keys-${n}-0123456789abcdef }`);
    const gateway = await startConsole(t, CONSOLE_YAML.replace(/^keys: \{/m, `keys: { ${many.join(", ")},`));
    const { ledger } = gateway.gateway.stores;
    const now = Date.now();
    for (let n = 0; n < 130; n++) ledger.append(plainEntry(now - n * 1000));
    await ledger.flush();
    const page = await consolePage(t, gateway, "/keys");
    const keys = page.getByRole("table", { name: "Keys" }).locator("tbody tr");
    await keys.nth(41).waitFor();
    t.equal(await keys.count(), 42);
    await page.goto(`${gateway.base}/requests`);
    const rows = page.getByRole("table", { name: "Requests" }).locator("tbody tr");
    await rows.nth(99).waitFor();
    t.equal(await rows.count(), 100);
    const newest = await rows.first().innerText();
    await page.getByRole("button", { name: "Older" }).click();
    await rows.nth(30).waitFor({ state: "detached" });
    t.equal(await rows.count(), 30, "the others");
    t.equal(await page.getByRole("button", { name: "Older" }).count(), 0, "there are no more");
    await page.getByRole("button", { name: "Newest" }).click();
    await rows.nth(99).waitFor();
    t.equal(await rows.first().innerText(), newest);
  },
);

t.test("a page requests everything once, and begins before its scripts have run", options, async (t) => {
  const gateway = await startConsole(t);
  await traffic(gateway);
  const page = await consolePage(t, gateway, "/audit");
  for (const path of ["/", "/requests?since=7d", "/money?by=key", "/providers", "/keys", "/config", "/audit"]) {
    const asked: string[] = [];
    const note = (request: { url(): string }) => asked.push(request.url().slice(gateway.base.length));
    page.on("request", note);
    await page.goto(gateway.base + path);
    await page.locator("[aria-busy=true]").first().waitFor({ state: "detached" });
    page.off("request", note);
    const api = asked.filter((each) => each.startsWith("/api/"));
    t.same(api, [...new Set(api)], path);
    t.match(
      await page.getByRole("contentinfo").innerText(),
      /Times are this browser's \(UTC.*\)\. .* midnight in UTC,/,
    );
    t.ok(api.includes(path === "/" ? "/api/live/events" : "/api/session"), path);
  }
});
