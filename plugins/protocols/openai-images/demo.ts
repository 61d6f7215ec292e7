import {
  asCount,
  asObject,
  asText,
  DEMO_CUT,
  type DemoAnswer,
  type DemoRequest,
  demoFault,
  demoId,
  demoScript,
  demoStream,
  demoTokens,
  demoWhole,
  eventBytes,
  type JsonObject,
  png,
  statusFault,
} from "model-gateway/protocol";
import { streamError } from "./errors.ts";

const SIZE = 64;
/** The error in the stream of `error-stream`. */
const FAILURE = statusFault(500, "The demo model failed in mid-stream, as it is made to.");

/** Returns the demo provider's images: small squares with a colour derived from the request. */
export function demo(request: DemoRequest): DemoAnswer | undefined {
  if (demoFault(request.model, request.streaming)) return undefined;
  const body = asObject(request.body) ?? {};
  const script = demoScript(request.model, { text: "", tools: [] });
  const created = Math.floor(Date.now() / 1000);
  const colour = Buffer.from(demoId(request), "hex");
  const image = (n: number) =>
    gradientPng(SIZE, [(colour[0] ?? 0) ^ n, colour[1] ?? 0, colour[2] ?? 0]).toString("base64");
  const properties = { background: "opaque", output_format: "png", quality: "low", size: `${SIZE}x${SIZE}` };
  if (request.streaming) {
    const kind = request.operation.name === "edit" ? "image_edit" : "image_generation";
    const events = eventsOf(kind, { created_at: created, ...properties }, image, body);
    return demoStream(toFrames(events, script.wait.first, script.end));
  }
  const count = Math.min(10, asCount(body["n"]) || 1);
  const data = Array.from({ length: count }, (_, n) =>
    body["response_format"] === "url" ? { url: `data:image/png;base64,${image(n)}` } : { b64_json: image(n) },
  );
  return demoWhole({ created, ...properties, data, usage: usageOf(body, count) }, script);
}

/** Returns the requested number of partial images, then the complete one. */
function eventsOf(kind: string, head: JsonObject, image: (n: number) => string, body: JsonObject): Buffer[] {
  const partials = Math.min(3, asCount(body["partial_images"]) ?? 0);
  const event = (type: string, n: number, members: JsonObject) =>
    eventBytes({ type, b64_json: image(n), ...head, ...members }, type);
  return [
    ...Array.from({ length: partials }, (_, n) => event(`${kind}.partial_image`, n + 1, { partial_image_index: n })),
    event(`${kind}.completed`, 0, { usage: usageOf(body, 1) }),
  ];
}

/** Returns the events as frames; a stream that fails ends with its error instead of its last event. */
function toFrames(events: readonly Buffer[], after: number, end: string): DemoAnswer["frames"] {
  const frames: DemoAnswer["frames"][number][] = events.map((bytes, n) => (n === 0 ? { after, bytes } : { bytes }));
  if (end === "cut") frames.splice(-1, 1, DEMO_CUT);
  if (end === "error") {
    frames.splice(-1, 1, { bytes: streamError(FAILURE) });
  }
  return frames;
}

function usageOf(body: JsonObject, images: number): JsonObject {
  const input = demoTokens(asText(body["prompt"]) ?? "");
  const output = images * (SIZE / 16) ** 2;
  return {
    input_tokens: input,
    input_tokens_details: { text_tokens: input, image_tokens: 0 },
    output_tokens: output,
    output_tokens_details: { text_tokens: 0, image_tokens: output },
    total_tokens: input + output,
  };
}

type Colour = readonly [red: number, green: number, blue: number];

/** Returns a square with a gradient from one colour to its opposite. */
export const gradientPng = (size: number, colour: Colour): Buffer =>
  png(size, (x, y) => {
    const share = (x + y) / (2 * size);
    const mix = (part: number) => part + (255 - 2 * part) * share;
    const [red, green, blue] = colour;
    return [mix(red), mix(green), mix(blue)];
  });
