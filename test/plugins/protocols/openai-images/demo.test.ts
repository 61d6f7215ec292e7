import { crc32, inflateSync } from "node:zlib";
import OpenAI from "openai";
import t, { type Test } from "tap";
import { gradientPng } from "../../../../plugins/protocols/openai-images/demo.ts";
import protocol from "../../../../plugins/protocols/openai-images/index.ts";
import { Demo } from "../../../../src/upstream/demo.ts";
import { collect, demoOf, withSdks } from "../../../support/openai-sdks.ts";
import { eventsIn } from "../../../support/recorded.ts";

const isPng = (base64: string | undefined) => Buffer.from(base64 ?? "", "base64").toString("latin1", 1, 4) === "PNG";

t.test("a prompt becomes as many images as requested", (t) =>
  withSdks(t, protocol, async (t, client) => {
    const { data, usage } = await client.images.generate({ model: "image", prompt: "a red kite", n: 3 });
    t.equal(data?.length, 3);
    t.ok(data?.every(({ b64_json }) => isPng(b64_json)));
    t.equal(usage?.total_tokens, (usage?.input_tokens ?? 0) + (usage?.output_tokens ?? 0));
    const byUrl = await client.images.generate({ model: "image", prompt: "a red kite", response_format: "url" });
    t.match(byUrl.data?.[0]?.url, /^data:image\/png;base64,/);
  }),
);

t.test("an image becomes another, from a form", (t) =>
  withSdks(t, protocol, async (t, client) => {
    const image = new File([new Uint8Array(4)], "in.png", { type: "image/png" });
    const { data } = await client.images.edit({ model: "image", prompt: "bluer", image });
    t.ok(isPng(data?.[0]?.b64_json));
  }),
);

t.test("a stream shows partial images and then the complete one", async (t) => {
  const demo = new Demo([protocol]);
  const origin = await demo.start();
  t.teardown(() => demo.close());
  const client = new OpenAI({ baseURL: new URL("/v1", origin).href, apiKey: "key", maxRetries: 0 });
  const ask = (model: string) =>
    client.images.generate({ model, prompt: "a red kite", stream: true, partial_images: 2 }).then(collect);
  const { items } = await ask("image");
  t.same(
    items.map(({ type }) => type),
    ["image_generation.partial_image", "image_generation.partial_image", "image_generation.completed"],
  );
  t.ok(items.every(({ b64_json }) => isPng(b64_json)));
  for (const model of ["error-stream", "cut"]) {
    const { items, error } = await ask(model);
    if (model === "error-stream") t.equal(items.length, 2);
    t.ok(error instanceof Error, `${model} throws`);
  }
});

t.test("its streams end, and contain usage, by the protocol's own rules", async (t) => {
  const { frames } = demoOf(protocol, "/v1/images/generations", {
    model: "image",
    prompt: "x",
    stream: true,
    partial_images: 1,
  });
  const events = eventsIn(frames.map((frame) => String(frame.bytes)).join(""));
  t.same(events.map(protocol.ending), [undefined, "complete"]);
  t.same(events.map(protocol.holdsUsage), [false, true]);
});

/** Name and content of each chunk, checksums compared. */
function chunksOf(t: Test, bytes: Buffer): [string, Buffer][] {
  const chunks: [string, Buffer][] = [];
  for (let at = 8; at < bytes.length; ) {
    const end = at + 8 + bytes.readUInt32BE(at);
    t.equal(bytes.readUInt32BE(end), crc32(bytes.subarray(at + 4, end)));
    chunks.push([bytes.toString("latin1", at + 4, at + 8), bytes.subarray(at + 8, end)]);
    at = end + 4;
  }
  return chunks;
}

t.test("an image is a complete PNG of the requested size", async (t) => {
  const bytes = gradientPng(16, [200, 100, 0]);
  t.equal(bytes.toString("latin1", 0, 8), "\x89PNG\r\n\x1a\n");
  const chunks = chunksOf(t, bytes);
  t.same(
    chunks.map(([name]) => name),
    ["IHDR", "IDAT", "IEND"],
  );
  const [header, pixels] = chunks.map(([, content]) => content);
  t.same([header?.readUInt32BE(0), header?.readUInt32BE(4), header?.[8], header?.[9]], [16, 16, 8, 2]);
  t.equal(inflateSync(pixels ?? "").length, 16 * (1 + 3 * 16));
});

t.test("an image begins with its colour", async (t) => {
  const pixels = chunksOf(t, gradientPng(2, [200, 100, 0]))[1]?.[1];
  t.same([...inflateSync(pixels ?? "").subarray(0, 4)], [0, 200, 100, 0]);
});
