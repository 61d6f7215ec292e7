import type { Attempt } from "model-gateway";
import type { Usage } from "model-gateway/store";

/**
 * Adds what only the request tells of drawn images, as the vendor does at the end of a response: the model that drew them, and the
 * tokens of those it had not reported.
 */
export function withDrawingModel(usage: Usage, { protocol, body }: Pick<Attempt, "protocol" | "body">): Usage {
  if (!usage.drawn) return usage;
  const { unreported, ...drawn } = usage.drawn;
  const told = unreported === undefined ? usage : { ...usage, drawn };
  const [type, , usual] = protocol.output?.imageTool ?? [];
  if (drawn.model !== undefined || type === undefined || body.member("tools")?.kind !== "array") return told;
  const tools = body.value("tools") as (Record<string, unknown> | null)[];
  const tool = tools.find((each) => each?.["type"] === type);
  if (!tool) return told;
  const model = typeof tool["model"] === "string" ? tool["model"] : undefined;
  const total = unreported && usual ? unreported * usual(model, (name) => tool[name]) : undefined;
  return {
    ...usage,
    drawn: {
      ...drawn,
      ...(model !== undefined && { model }),
      ...(total !== undefined && { out: { total, image: total } }),
    },
  };
}
