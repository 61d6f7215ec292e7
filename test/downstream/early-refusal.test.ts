import t from "tap";
import { requestText, talkToEnd } from "../support/connection.ts";
import { KEY, startGateway } from "../support/gateway.ts";

const MODELS = 'providers: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }\n';
/** Nothing that the gateway made, and as long as a secret. */
const OTHER_KEY = "sk-0123456789abcdef";

t.test("a refusal is logged with the path, without what may be a secret", async (t) => {
  const { port, log } = await startGateway(t, MODELS);
  for (const [target, status, code, path] of [
    ["/nowhere?a=b", 404, "path_not_found", "/nowhere"],
    ["http://user:word@host/v1", 400, "bad_target", "http://host/v1"],
    [`/v1/gw_${"x".repeat(20)}/models`, 400, "misplaced_key", undefined],
    [`/nowhere/${OTHER_KEY}`, 404, "path_not_found", undefined],
  ] as const) {
    const headers = ["connection: close", `x-api-key: ${OTHER_KEY}`];
    const text = await talkToEnd(t, port, requestText(`GET ${target}`, headers));
    t.match(text, new RegExp(`^HTTP/1\\.1 ${status} `), target);
    const line = log.lines.at(-1);
    t.match(line, { message: "refused", fields: { method: "GET", status, error: { code } } }, target);
    t.equal(line?.fields["path"], path, target);
  }
  t.notMatch(JSON.stringify(log.lines), new RegExp(`${KEY}|${OTHER_KEY}|word@`));
});
