import type { DoneExchange, Protocol, Translations } from "model-gateway";
import { estimateTokens, tokenWeights } from "./token-count.ts";

/** Characters of a request whose tokens are counted; the others are assumed to have as many for each character. */
const MAX_COUNTED = 64 * 1024;
/** Top-level members that describe tools. `functions` is the former name at OpenAI. */
const TOOLS = ["tools", "functions"];

/**
 * Returns about how many input tokens a request has, near what its provider reports: its texts, its turns, the schemas of its
 * tools, its media. Unlike `Translations.tokensIn`, it is not meant to be an upper bound. Undefined for a form, and where no
 * text is found: tokens instead of text, or no JSON.
 */
export function requestedTokens(exchange: DoneExchange, translations: Translations): number | undefined {
  if (exchange.form) return undefined;
  const attempt = exchange.attempt ?? exchange.attempts.at(-1);
  const { protocol, body } = attempt ?? exchange;
  try {
    const tokens = tokensInJson(body.json(), protocol, attempt?.target.model);
    return tokens === undefined ? undefined : tokens + translations.mediaTokensIn(exchange);
  } catch {
    // The body is not JSON; the provider has answered all the same.
    return undefined;
  }
}

/**
 * Returns about how many tokens a parsed request has, without its media; undefined: it has no texts.
 * @param model the vendor's name of the model
 */
export function tokensInJson(json: unknown, protocol: Protocol, model = ""): number | undefined {
  const { textFactor, input = { perTurn: 0, tools: 0, schemaFactor: textFactor } } = tokenWeights(protocol, model);
  const texts = [...protocol.texts.request(json)].map(({ path }) => valueAt(json, path));
  const tools = TOOLS.map((name) => valueAt(json, [name])).filter((list) => Array.isArray(list) && list.length > 0);
  if (texts.length === 0 && tools.length === 0) return undefined;
  const turns = valueAt(json, [protocol.conversation?.turns ?? ""]);
  const schemas =
    tools.length > 0 ? input.tools + estimateTexts(tools.map((list) => JSON.stringify(list))) * input.schemaFactor : 0;
  return Math.ceil(
    estimateTexts(texts) * textFactor + (Array.isArray(turns) ? turns.length : 1) * input.perTurn + schemas,
  );
}

/** Returns about how many tokens texts have, at a cost that is bounded however long they are. */
function estimateTexts(texts: readonly unknown[]): number {
  let [tokens, counted, others] = [0, 0, 0];
  for (const text of texts) {
    if (typeof text !== "string") continue;
    const part = text.slice(0, MAX_COUNTED - counted);
    tokens += estimateTokens(part);
    counted += part.length;
    others += text.length - part.length;
  }
  return counted === 0 ? 0 : tokens + (tokens / counted) * others;
}

const valueAt = (json: unknown, path: readonly (string | number)[]): unknown =>
  path.reduce<unknown>((value, name) => (value as Record<string | number, unknown> | null)?.[name], json);
