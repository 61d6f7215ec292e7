import {
  asList,
  asObject,
  asText,
  contentText,
  type DemoAnswer,
  type DemoRequest,
  demoFault,
  demoId,
  demoTokens,
  demoWhole,
  type JsonObject,
} from "model-gateway/protocol";
import { writeResponsesUsage } from "./usage.ts";
import { COMPACT, COMPACTION } from "./wire.ts";

/** Returns the demo provider's response for a path that no other protocol has: a compaction. */
export function demo(request: DemoRequest): DemoAnswer | undefined {
  if (request.operation !== COMPACT || demoFault(request.model, request.streaming)) return undefined;
  const id = demoId(request);
  const { input, instructions } = asObject(request.body) ?? {};
  const items = typeof input === "string" ? [{ type: "message", role: "user", content: input }] : asList(input);
  return demoWhole(
    compactionResponse(
      id,
      items.map((item) => asObject(item) ?? {}),
      asText(instructions) ?? "",
    ),
  );
}

/** Keeps user messages, and puts everything else into one compaction item. */
function compactionResponse(id: string, items: readonly JsonObject[], instructions: string): JsonObject {
  const prompt = instructions + items.map((item) => contentText(item["content"] ?? item["output"])).join("");
  const userMessages = items
    .filter((item) => item["role"] === "user")
    .map(({ content }, n) => ({
      id: `msg_demo${id}${n}`,
      type: "message",
      status: "completed",
      role: "user",
      content: typeof content === "string" ? [{ type: "input_text", text: content }] : content,
    }));
  const state = `${prompt.length} characters were here.`;
  return {
    id: `resp_demo${id}`,
    object: "response.compaction",
    created_at: Math.floor(Date.now() / 1000),
    output: [...userMessages, { id: `cmp_demo${id}`, type: COMPACTION, encrypted_content: encryptedBlob(state) }],
    usage: writeResponsesUsage({ in: { total: demoTokens(prompt) }, out: { total: 0 }, raw: undefined }),
  };
}

/** Returns a text in the form of the vendor's encrypted blobs, which begin with the version byte 0x80. It is not encrypted. */
const encryptedBlob = (text: string): string =>
  Buffer.concat([Buffer.from([0x80, 0, 0, 0]), Buffer.from(text)]).toString("base64url");
