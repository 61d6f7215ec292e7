import type { Attempt } from "model-gateway";
import type { Usage } from "model-gateway/store";

/** Names the model that has drawn images for a response, if only the request tells it: the vendor does at the end of a response. */
export function withDrawingModel(usage: Usage, { protocol, body }: Pick<Attempt, "protocol" | "body">): Usage {
  const { drawn } = usage;
  const [type] = protocol.output?.imageTool ?? [];
  if (!drawn || drawn.model !== undefined || type === undefined || body.member("tools")?.kind !== "array") return usage;
  const tools = body.value("tools") as ({ type?: unknown; model?: unknown } | null)[];
  const model = tools.find((tool) => tool?.type === type)?.model;
  return typeof model === "string" ? { ...usage, drawn: { ...drawn, model } } : usage;
}
