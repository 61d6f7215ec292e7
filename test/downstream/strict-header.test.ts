import t from "tap";
import { wantsStrict } from "../../src/downstream/strict-header.ts";
import { HeaderList } from "../../src/wire/headers.ts";
import { asking, startGateway } from "../support/gateway.ts";

const valued = (value: string) => new HeaderList(["Gateway-Strict", value]);

t.test("strict mode is on with 1 or true, and off with 0, false or no header", (t) => {
  for (const value of ["1", "true", "TRUE"]) t.equal(wantsStrict(valued(value)), true, value);
  for (const value of ["0", "false", "False"]) t.equal(wantsStrict(valued(value)), false, value);
  t.equal(wantsStrict(new HeaderList()), false);
  t.end();
});

t.test("an unknown value is refused with the allowed ones, also by a path that is strict itself", async (t) => {
  for (const value of ["yes", "maybe", "on", "2", ""])
    t.throws(() => wantsStrict(valued(value)), { code: "invalid_field", status: 400, param: "gateway-strict" }, value);
  const { url } = await startGateway(
    t,
    `providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo] } }
paths: { /v1/messages: { protocol: anthropic-messages, strict: true } }
`,
  );
  const messages = [{ role: "user", content: "hi" }];
  for (const path of ["/v1/messages", "/v1/chat/completions"]) {
    const ask = (value: string) =>
      fetch(url + path, {
        method: "POST",
        headers: asking({ "gateway-strict": value }),
        body: JSON.stringify({ model: "echo", max_tokens: 10, messages }),
      });
    const refused = await ask("maybe");
    t.equal(refused.status, 400, path);
    t.match(await refused.json(), { error: { message: /gateway-strict has the value "maybe"\. It takes 1 or true/ } });
    t.equal((await ask("0")).status, 200, path);
  }
});
