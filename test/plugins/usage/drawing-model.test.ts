import t from "tap";
import { asking, startGateway } from "../../support/gateway.ts";
import { until } from "../../support/until.ts";
import { httpUpstream } from "../../support/upstream.ts";

const DATA = "iVBORw0KGgo".repeat(1000);
const event = (type: string, more: object) => `event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`;
const begun = (id: string) =>
  event("response.image_generation_call.partial_image", { item_id: id, output_index: 0, partial_image_b64: DATA });
const completed = (id: string) => event("response.image_generation_call.completed", { item_id: id, output_index: 0 });
const whole = (id: string) =>
  event("response.output_item.done", {
    item: { type: "image_generation_call", id, status: "completed", result: DATA },
  });

/** What arrives before the client leaves, and the images in it. */
const MOMENTS: Readonly<Record<string, readonly [arrived: string, images: number]>> = {
  "parts of an image": [begun("a") + begun("a"), 1],
  "an image whose item has not come": [begun("a") + completed("a"), 1],
  "an image": [begun("a") + completed("a") + whole("a"), 1],
  "an image without parts": [whole("a"), 1],
  "one image and a part of the next": [begun("a") + whole("a") + begun("b"), 2],
};
const TOKENS = 4160;

t.test(
  "an image that a tool drew before its client left has the rate of the model that the request names",
  async (t) => {
    let arrived = "";
    const upstream = await httpUpstream((_, reply) =>
      reply.writeHead(200, { "content-type": "text/event-stream" }).write(arrived),
    );
    t.teardown(() => upstream.close());
    const { url, gateway, log } = await startGateway(
      t,
      `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-responses] } }
models:
  m:
    price: { input: 0, output: 0, image_generation: { dear: { output: 40 }, usual: { output: 30 } } }
    targets: [up:x]
`,
    );
    const ended = () => log.lines.filter(({ message }) => message === "exchange").length;
    const leave = async (tool: object) => {
      const body = JSON.stringify({ model: "m", input: "x", stream: true, tools: [{ type: "web_search" }, tool] });
      const before = ended();
      const response = await fetch(`${url}/v1/responses`, { method: "POST", headers: asking(), body });
      const reader = response.body?.getReader();
      for (let seen = 0; seen < arrived.length; ) seen += (await reader?.read())?.value?.length ?? arrived.length;
      await reader?.cancel();
      await until(() => ended() > before, "the end");
      await gateway.stores.ledger.flush();
      return (await gateway.stores.ledger.recent(1))[0];
    };
    for (const [moment, [bytes, images]] of Object.entries(MOMENTS)) {
      arrived = bytes;
      const row = await leave({ type: "image_generation", model: "usual" });
      t.match(row, { outcome: "aborted", source: "estimated", cost: images * TOKENS * 30_000 }, moment);
      t.match(row?.usage?.drawn, { model: "usual", out: { image: images * TOKENS } }, moment);
    }
    const asked = await leave({ type: "image_generation", model: "usual", size: "1024x1536", quality: "low" });
    t.match(asked?.usage?.drawn, { model: "usual", out: { total: 2 * 408, image: 2 * 408 } }, "as it was asked for");
    t.equal(asked?.cost, 2 * 408 * 30_000);
    t.notOk("unreported" in (asked?.usage?.drawn ?? {}));
    const unnamed = await leave({ type: "image_generation" });
    t.equal(unnamed?.cost, undefined, "which model is the vendor's default is unknown");
    t.equal(unnamed?.assumedCost, 2 * TOKENS * 40_000, "so that budgets count the highest rate");
  },
);
