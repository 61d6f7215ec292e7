import t from "tap";
import { looksOf, noBrowser } from "../support/browser.ts";
import { CONSOLE_YAML, consolePage, startConsole } from "../support/console.ts";
import { httpUpstream } from "../support/upstream.ts";

t.test(
  "the page of a request shows both sides of the recording, once a user requests it",
  { skip: noBrowser },
  async (t) => {
    const chain = "[record, sse, auth, models, limits, rewrite, usage, record]";
    const record = JSON.stringify({ sample: 1, file: `${t.testdir()}/recorded.db` });
    const busy = await httpUpstream((_, reply) =>
      reply.writeHead(503).end('{"error":{"message":"No room just now."}}'),
    );
    t.teardown(() => busy.close());
    const targets = CONSOLE_YAML.replace(
      "providers:\n",
      `providers:\n  busy: { url: "${busy.origin.origin}/v1", protocol: openai-chat }\n`,
    ).replace("targets: [down:x]", "targets: [down:x, busy:x]");
    const gateway = await startConsole(t, `${targets}chains: { llm: ${chain} }\nplugins: { record: ${record} }\n`);
    const id = await gateway.askModel("fragile", { text: "Where did it go wrong?" });
    await gateway.gateway.stores.ledger.flush();
    const page = await consolePage(t, gateway, `/requests/${id}`);
    t.equal((await gateway.gateway.stores.audit.list(10)).length, 0, "no recording has been shown");
    await page.getByRole("button", { name: "Show request and answer" }).click();
    const client = page.getByRole("region", { name: "As the client saw it" });
    await client.getByText("Where did it go wrong?").waitFor();
    t.match(await client.getByRole("region", { name: "Answer to the client", exact: true }).innerText(), /data: /);
    const attempt = (at: number) =>
      page.getByRole("region", { name: `Attempt ${at}, as the provider saw it` }).innerText();
    const [one, two] = [await attempt(1), await attempt(2)];
    const [down, failed] = one.includes("down:x") ? [one, two] : [two, one];
    t.match(down, /down:x[\s\S]*upstream_unreachable[\s\S]*No answer came\./);
    t.match(failed, /busy:x[\s\S]*Where did it go wrong\?[\s\S]*503[\s\S]*No room just now\./);
    t.match(await attempt(3), /demo:echo[\s\S]*200[\s\S]*data: /);
    const [looked] = await gateway.gateway.stores.audit.list(10);
    t.match(looked, { action: "requests.recorded", subject: id });
    for (const { where, faults, overflow } of await looksOf(page)) {
      t.same(faults, [], `${where}: axe finds nothing serious`);
      t.ok(overflow <= 0, `${where}: nothing is wider than the window`);
    }
  },
);
