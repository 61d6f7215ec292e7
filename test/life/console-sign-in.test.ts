import { writeFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { faultsOf, looksOf, noBrowser } from "../support/browser.ts";
import { CONSOLE_YAML, consolePage, startConsole } from "../support/console.ts";
import { CLIENT, startIdentityProvider } from "../support/identity-provider.ts";

t.test(
  "a user signs in at an identity provider, makes a key and signs out, in a browser",
  { skip: noBrowser },
  async (t) => {
    const console = await startConsole(t);
    const { base, folder, gateway } = console;
    const people = { alice: { email: "alice@example.com", groups: ["ops"] }, eve: { groups: [] } };
    const { issuer } = await startIdentityProvider(t, `${base}/api/session/callback`, people);
    const oidc = `{ issuer: "${issuer}", client_id: ${CLIENT.id}, client_secret: ${CLIENT.secret}, url: "${base}", roles: { admin: [ops] } }`;
    writeFileSync(join(folder, "gateway.yaml"), `${CONSOLE_YAML}admin: { listen: 127.0.0.1:0, oidc: ${oidc} }\n`);
    await gateway.reload();

    const page = await consolePage(t, console, "/keys?q=test", true);
    const start = page.getByRole("link", { name: "Sign in" });
    await start.waitFor();
    for (const { where, faults, overflow } of await looksOf(page)) {
      t.same(faults, [], `${where}: axe finds nothing serious`);
      t.ok(overflow <= 0, where);
    }
    const signIn = async (who: string) => {
      await start.click();
      await page.locator("input[name=login]").fill(who);
      await page.locator("input[name=password]").fill("any");
      await page.locator("button[type=submit]").click();
      await page.getByRole("button", { name: "Continue" }).click();
    };
    await signIn("alice");
    await page.getByRole("table", { name: "Keys" }).waitFor();
    t.equal(new URL(page.url()).pathname + new URL(page.url()).search, "/keys?q=test", "the page that was requested");
    t.match(await page.locator("header").innerText(), "alice@example.com");
    t.equal(await page.evaluate("document.cookie"), "", "no script reads the session");
    await page.getByRole("button", { name: "Make a key" }).click();
    await page.getByLabel("Name").fill("laptop");
    await page.getByRole("button", { name: "Make it" }).click();
    await page.getByRole("button", { name: "I have it" }).click();
    await page.goto(`${base}/audit`);
    const trail = await page.getByRole("table", { name: "Changes" }).innerText();
    t.match(trail, /alice@example\.com[\s\S]*keys\.create/);
    await page.getByRole("button", { name: "Sign out" }).click();
    await start.waitFor();
    t.equal(
      (await page.context().cookies(base)).some(({ name }) => name.startsWith("gateway_")),
      false,
    );

    await page.context().clearCookies();
    await page.goto(base);
    await signIn("eve");
    t.match(await page.getByRole("alert").innerText(), /may not use this console/);
    t.same(await faultsOf(page), []);
  },
);
