import type { Attempt, Body, DoneExchange, Protocol, Translations } from "model-gateway";
import { sampledTokens } from "./long-request.ts";
import { requestedOutput } from "./output-limit.ts";
import { requestedEffort } from "./requested-effort.ts";
import { requestedTier } from "./tier.ts";
import { estimateTokens, tokenWeights } from "./token-count.ts";
import { type RequestFigures, tryRead } from "./usage-reading.ts";
import { valueAt } from "./value-at.ts";

/** Bytes of a request that is parsed for an estimate: parsing a longer one would block the event loop. */
const MAX_PARSED = 128 * 1024;

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
  const model = attempt?.target.model ?? "";
  try {
    if (body.length > MAX_PARSED) return tokensInLong(body, protocol, model, translations.longMediaIn(body.pieces));
    const tokens = tokensInJson(body.json(), protocol, model);
    return tokens === undefined ? undefined : tokens + translations.mediaTokensIn(exchange);
  } catch {
    // The body is not JSON; the provider has answered all the same.
    return undefined;
  }
}

/**
 * The figures of a request, each computed when it is read. A class: an object that is written with getters keeps all that they refer
 * to until V8 marks the whole heap, as it belongs to a hidden class of its own.
 */
export class SentFigures implements RequestFigures {
  readonly bytes: number;
  /** The attempt, where its body is no form. */
  private readonly sent: Attempt | undefined;

  constructor(
    private readonly exchange: DoneExchange,
    private readonly translations: Translations,
  ) {
    const attempt = exchange.attempt ?? exchange.attempts.at(-1);
    this.bytes = attempt?.body.length ?? 0;
    this.sent = exchange.form ? undefined : attempt;
  }

  get tokens(): number | undefined {
    return requestedTokens(this.exchange, this.translations);
  }

  get tier(): string | undefined {
    return this.sent && requestedTier(this.sent, this.exchange.time);
  }

  get output(): number | undefined {
    const { sent } = this;
    return sent && tryRead(() => requestedOutput(sent));
  }

  get effort(): string | undefined {
    const { sent } = this;
    return sent && tryRead(() => requestedEffort(sent));
  }

  /** Returns all of them, for when the body is gone. */
  read(): RequestFigures {
    const { bytes, tokens, tier, output, effort } = this;
    return { bytes, tokens, tier, output, effort };
  }
}

/**
 * Returns about how many tokens a long request has: parsed, if it is short without its media, or else by samples.
 * @param media where its media are, and their tokens
 * @throws GatewayError if it is not JSON
 */
function tokensInLong(
  body: Body,
  protocol: Protocol,
  model: string,
  media: ReturnType<Translations["longMediaIn"]>,
): number | undefined {
  const spans: { start: number; end: number }[] = [];
  let [start, length, mediaTokens] = [0, 0, 0];
  for (const each of [...media, { start: body.length, end: body.length, tokens: 0 }]) {
    spans.push({ start, end: each.start });
    length += each.start - start;
    start = each.end;
    mediaTokens += each.tokens;
  }
  if (length > MAX_PARSED) {
    const tokens = sampledTokens(body, spans);
    return tokens && Math.ceil(tokens * tokenWeights(protocol, model).textFactor) + mediaTokens;
  }
  const short = body.edited(media.map(({ start, end }) => ({ start, end, bytes: Buffer.alloc(0) })));
  const parsed = tokensInJson(short.json(), protocol, model);
  return parsed === undefined ? undefined : parsed + mediaTokens;
}

/**
 * Returns about how many tokens a parsed request has, without its media; undefined: it has no texts.
 * @param model the vendor's name of the model
 */
export function tokensInJson(json: unknown, protocol: Protocol, model = ""): number | undefined {
  const weights = tokenWeights(protocol, model);
  const { textFactor } = weights;
  const input: NonNullable<typeof weights.input> = weights.input ?? { perTurn: 0, tools: 0, schemaFactor: textFactor };
  const texts = [...protocol.texts.request(json)].map(({ path }) => valueAt(json, path));
  const tools = TOOLS.map((name) => valueAt(json, [name])).filter((list) => Array.isArray(list) && list.length > 0);
  if (texts.length === 0 && tools.length === 0) return undefined;
  const turns = valueAt(json, [protocol.conversation?.turns ?? ""]);
  const schemas =
    tools.length > 0 ? input.tools + estimateTexts(tools.map((list) => JSON.stringify(list))) * input.schemaFactor : 0;
  const perTurns = (Array.isArray(turns) ? turns.length : 1) * input.perTurn;
  return Math.ceil(estimateTexts(texts) * textFactor + (input.once ?? 0) + perTurns + schemas);
}

/**
 * Returns about how many output tokens a parsed whole response has, without what tools of the vendor have found; undefined: it
 * has no texts and no calls. Hidden reasoning counts instead of its summaries.
 * @param model the vendor's name of the model
 */
export function answerTokens(json: unknown, protocol: Protocol, model = ""): number | undefined {
  const { textFactor, perToolCall, perAnswer = 0 } = tokenWeights(protocol, model);
  const places = json === undefined ? [] : [...protocol.texts.response(json)];
  const hidden = [...(protocol.hiddenReasoning?.()(json) ?? [])];
  const calls = ANSWERS.reduce((sum, name) => sum + callsIn(valueAt(json, [name]), MAX_CALL_DEPTH), 0);
  if (places.length === 0 && hidden.length === 0 && calls === 0) return undefined;
  const isSummarized = hidden.some(([kind]) => kind === "summarized");
  const members = new Map<string, string>();
  const texts = places.flatMap(({ path, kind, alternative: { of, member } = { of: "", member: "" } }) => {
    const text = valueAt(json, path);
    if (!OUTPUT_KINDS.has(kind) || (kind === "reasoning" && isSummarized) || text === "") return [];
    // Of members that repeat one text the first counts.
    if (!members.has(of)) members.set(of, member);
    return members.get(of) === member ? [text] : [];
  });
  const reasoning = hidden.reduce((sum, [, tokens]) => sum + tokens, 0);
  return Math.ceil(estimateTexts(texts) * textFactor + calls * perToolCall + perAnswer + reasoning);
}

/** What a model writes: some vendors repeat the request's instructions. */
const OUTPUT_KINDS: ReadonlySet<string> = new Set(["assistant", "reasoning", "tool_call"]);
/** Top-level members that hold answers, and those of a call with its arguments. */
const ANSWERS = ["choices", "output", "content", "candidates"];
const ARGUMENTS = ["arguments", "input", "args"];
/** Lists and objects that a call is in at most: of choices, messages, calls and functions. */
const MAX_CALL_DEPTH = 7;

/** Counts the calls of tools in a part of an answer. */
function callsIn(value: unknown, depth: number): number {
  if (typeof value !== "object" || value === null || depth === 0) return 0;
  if ("name" in value && ARGUMENTS.some((name) => name in value)) return 1;
  return Object.values(value).reduce((sum, inner) => sum + callsIn(inner, depth - 1), 0);
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
