import t from "tap";
import openaiImages from "../../../plugins/protocols/openai-images/index.ts";
import { settle } from "../../../plugins/usage/settlement.ts";
import { Body } from "../../../src/core/body.ts";
import { scan } from "../../../src/wire/json.ts";
import { asking, startGateway } from "../../support/gateway.ts";
import { httpUpstream } from "../../support/upstream.ts";

t.test("a streamed image costs its price by the image, also where its tokens are reported", async (t) => {
  const usage = { input_tokens: 10, output_tokens: 100, total_tokens: 110 };
  const event = (name: string, members: object) =>
    `event: image_generation.${name}\ndata: ${JSON.stringify({ type: `image_generation.${name}`, b64_json: "aGk=", ...members })}\n\n`;
  const partial = event("partial_image", { partial_image_index: 0 });
  const answers = [
    partial + event("completed", { usage }),
    event("completed", { usage, size: "1024x1024", quality: "hd" }),
    partial + event("completed", {}),
  ];
  let at = 0;
  const upstream = await httpUpstream((_, reply) =>
    reply.writeHead(200, { "content-type": "text/event-stream" }).end(answers[at++]),
  );
  t.teardown(() => upstream.close());
  const { url, gateway } = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", protocol: openai-images } }
models: { m: { price: { image: { "": 0.04, "hd 1024x1024": 0.12 } }, targets: [up:x] } }
`,
  );
  const costs: unknown[] = [];
  for (const answer of answers) {
    const response = await fetch(`${url}/v1/images/generations`, {
      method: "POST",
      headers: asking(),
      body: '{"model":"m","prompt":"a cat","stream":true}',
    });
    t.equal(await response.text(), answer);
    await gateway.stores.ledger.flush();
    costs.push((await gateway.stores.ledger.recent(1))[0]?.cost);
  }
  t.same(costs, [40_000_000, 120_000_000, 40_000_000]);
});

t.test("images that broke off count as they are reserved where a protocol's figure is none", async (t) => {
  const { images } = openaiImages;
  const text = Buffer.from("{}");
  for (const [figure, total] of [
    [Number.NaN, 8192],
    [-5, 8192],
    [Number.POSITIVE_INFINITY, 8192],
    [7, 14],
  ] as const) {
    const protocol = { ...openaiImages, images: { ...images, tokensOf: () => figure } };
    const exchange = {
      ...{ protocol, body: new Body([text], scan(text)), attempts: [{ sent: true, status: 200 }], outcome: "aborted" },
      operation: { name: "generate", task: "image", generates: true },
    };
    const reading = { parser: { imageCount: 2, bytes: 9 } };
    const { usage } = settle({ exchange, reading, cut: "estimate", asked: { tokens: 1 }, isRunning: false } as never);
    t.match(usage?.out, { total, image: total }, String(figure));
  }
});
