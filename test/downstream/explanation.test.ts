import { request } from "node:http";
import t from "tap";
import { wantsExplanation } from "../../src/downstream/explanation.ts";
import { HeaderList } from "../../src/wire/headers.ts";
import { asking, KEY, startGateway } from "../support/gateway.ts";
import { httpUpstream } from "../support/upstream.ts";

// What it answers is shown with whole gateways in explain.test.ts.

t.test("only the header's one value requests an explanation", async (t) => {
  t.equal(wantsExplanation(new HeaderList()), false);
  t.equal(wantsExplanation(new HeaderList(["Gateway-Explain", "dry-run"])), true);
  t.throws(() => wantsExplanation(new HeaderList(["gateway-explain", "on"])), { code: "invalid_field", status: 400 });
});

t.test("a pass-through request is not explained, and its provider is not called", async (t) => {
  const asked: string[] = [];
  const upstream = await httpUpstream(({ url }, reply) => {
    asked.push(url);
    reply.end("{}");
  });
  t.teardown(() => upstream.close());
  const { url } = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat], websocket: true, credential: the-providers-own } }
models: { m: { targets: [up:x] } }
paths: { /v1/files/*: { pass: up } }
`,
  );
  const explain = { "gateway-explain": "dry-run" };
  const passed = await fetch(`${url}/v1/files/some`, { headers: asking(explain) });
  t.equal(passed.status, 400);
  t.match(await passed.json(), {
    error: { code: "invalid_field", param: "gateway-explain", message: /nothing to explain/ },
  });
  const upgrade = { connection: "upgrade", upgrade: "websocket", "sec-websocket-version": "13" };
  const shaken = await new Promise<number | undefined>((done, failed) =>
    request(`${url}/v1/realtime?model=m`, {
      headers: {
        ...upgrade,
        ...explain,
        "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==",
        authorization: `Bearer ${KEY}`,
      },
    })
      .on("response", ({ statusCode }) => done(statusCode))
      .on("upgrade", () => done(101))
      .on("error", failed)
      .end(),
  );
  t.equal(shaken, 400);
  t.same(asked, []);
});
