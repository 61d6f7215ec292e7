import {
  type Conversation,
  type FeatureUse,
  type Fields,
  type IncomingRequest,
  invalidField,
  readSettings,
  requestFields,
  type Steps,
} from "model-gateway/protocol";
import { COMPLETION_SETTINGS } from "./support.ts";

/**
 * Decodes a text completion as one user message. What a chat model cannot do is refused: prompts as tokens of a tokenizer,
 * several prompts, a text after the gap, the best of several.
 * @throws GatewayError `invalid_field` with the client's own path
 */
export function* decodeRequest(request: IncomingRequest): Steps<Conversation> {
  const uses: FeatureUse[] = [];
  const body = requestFields(request, uses);
  yield;
  body.text("model");
  body.flag("stream");
  body.ignore("stream_options", "cosmetic");
  // Emulated when the response is encoded.
  body.flag("echo");
  const conversation: Conversation = {
    protocol: "openai-completions",
    task: request.task,
    stream: request.streaming,
    turns: [{ role: "user", at: "prompt", parts: [{ kind: "text", text: promptOf(body), at: "prompt" }] }],
    tools: [],
    uses,
  };
  readSettings(COMPLETION_SETTINGS, body, conversation);
  refuseUnsupported(body, conversation.choices ?? 1);
  body.declareUnread();
  return conversation;
}

/** Returns the single prompt. */
function promptOf(body: Fields): string {
  const prompt = body.any("prompt");
  if (typeof prompt === "string") return prompt;
  if (!Array.isArray(prompt) || prompt.length === 0) throw invalidField("prompt", "prompt must be a text.");
  if (prompt.some((item) => typeof item !== "string"))
    throw invalidField("prompt", "This model takes a prompt as text only: tokens mean nothing to it.");
  if (prompt.length > 1) throw invalidField("prompt", "This model takes one prompt a request; ask once for each.");
  return prompt[0] as string;
}

function refuseUnsupported(body: Fields, choices: number): void {
  const suffix = body.text("suffix");
  if (suffix)
    throw invalidField("suffix", "This model only continues a text: it cannot fill in the text before a suffix.");
  const best = body.number("best_of");
  if (best !== undefined && best > choices)
    throw invalidField("best_of", "This model cannot choose the best of several answers.");
}
