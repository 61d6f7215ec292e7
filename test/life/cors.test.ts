import { createServer } from "node:http";
import t from "tap";
import { noBrowser, openBrowser } from "../support/browser.ts";
import { KEY, startGateway } from "../support/gateway.ts";
import { listen } from "../support/listen.ts";

t.test(
  "a script of another site may call the gateway where gateway.yaml names the site, and only there",
  { skip: noBrowser },
  async (t) => {
    const site = createServer((_, response) => {
      response.writeHead(200, { "content-type": "text/html" }).end("<!doctype html><title>Another site</title>");
    });
    const origin = `http://127.0.0.1:${await listen(t, site)}`;
    const yaml = 'providers: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }\n';
    const closed = await startGateway(t, yaml);
    const open = await startGateway(t, `${yaml}cors: { origins: ["${origin}"] }\n`);
    const browser = await openBrowser();
    t.teardown(() => browser.close());
    const page = await browser.newPage();
    await page.goto(origin);
    const ask = (url: string, stream: boolean, key = KEY) =>
      page.evaluate(
        async ([address, key, stream]) => {
          const answer = await fetch(`${address}/v1/chat/completions`, {
            method: "POST",
            headers: { authorization: `Bearer ${key}`, "content-type": "application/json", "x-stainless-lang": "js" },
            body: JSON.stringify({ model: "echo", stream, messages: [{ role: "user", content: "hi there" }] }),
          });
          return { status: answer.status, id: answer.headers.get("x-request-id"), text: await answer.text() };
        },
        [url, key, stream] as const,
      );
    t.match(await ask(open.url, false), { status: 200, id: /./, text: /hi there/ });
    t.match(await ask(open.url, true), { status: 200, id: /./, text: /\[DONE\]/ });
    t.match(await ask(open.url, false, "wrong"), { status: 401, text: /not known/ }, "errors are read, too");
    await t.rejects(ask(closed.url, false), { message: /Failed to fetch/ });
  },
);
