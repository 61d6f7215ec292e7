import { asObject, asText, type Ending, type Frame, mayContain } from "model-gateway/protocol";

const COMPLETED = ["image_generation.completed", "image_edit.completed"].map((type) => ({
  type,
  bytes: Buffer.from(type),
}));

/** Whole at `image_generation.completed` or `image_edit.completed`. There is no dot in base64, so the search is safe. */
export function ending(frame: Frame): Ending | undefined {
  if (mayContain(frame.bytes, "error")) return asObject(asObject(frame.json())?.["error"]) ? "error" : undefined;
  if (!COMPLETED.some((name) => frame.bytes.includes(name.bytes))) return undefined;
  const type = asText(asObject(frame.json())?.["type"]) ?? frame.event;
  return COMPLETED.some((name) => name.type === type) ? "complete" : undefined;
}
