import {
  type Body,
  type Edit,
  GatewayError,
  Marketplace,
  type Protocol,
  type RouteExchange,
  type SendExchange,
  scan,
  type Target,
  type Translations,
} from "model-gateway";
import { cost, premiumTier, type Spending, type Usage } from "model-gateway/store";

/** The range of an exchange's cost: its maximum, and its minimum once a provider has received it. */
export interface WorstCase {
  readonly maximum: Spending;
  readonly minimum: Spending;
  /** Estimated input tokens, plus the output limit of the request itself; 0 for a limit it does not set. */
  readonly plausibleTokens: number;
  /** The part that may cost more than is known, in words; undefined: none. */
  readonly unpriced?: string | undefined;
}

type InputEstimate = NonNullable<Awaited<ReturnType<Translations["tokensIn"]>>>;

/** What an exchange spends that uses nothing. */
export const NO_SPENDING: Spending = { tokens: 0, cost: 0 };

/** JSON bytes per token: in nearly all texts a token has at least so many. */
const BYTES_PER_TOKEN = 3;
/** JSON bytes per token, on average. */
const USUAL_BYTES_PER_TOKEN = 4;
/** Bytes of a request up to which it is not searched for media. */
const SHORT_BODY = 4096;
const ESCAPE = "\\u00";
/** A member's name, followed by the member names and indices that lead to a value. */
type MemberPath = readonly (string | number)[];
/** What may be before the first value in lists of lists. */
const BEFORE_VALUES: ReadonlySet<number | undefined> = new Set(Buffer.from("[], \t\r\n"));
const DIGITS: ReadonlySet<number | undefined> = new Set(Buffer.from("0123456789-"));
/** A list of prompts, each of which is a list of token ids. */
const LIST_LEVELS = 3;
/** Usual tokens of a form, which consists of images and a few words. */
const FORM_TOKENS = 8192;
/** Tokens of a form's words, and of each of its images at most: an oblong one in high fidelity. */
const [WORDS_TOKENS, FILE_TOKENS] = [1371, 6821];
/** Maximum number of images in a form. */
const MAX_FILES = 16;
/** Tokens of a response where neither the request nor the model limits them. */
const UNKNOWN_OUTPUT = 4096;
/** Number of fallback models counted where the request lets the vendor choose them. */
const UNNAMED_MODELS = 2;
/** Maximum number of fallback models that a request may name: each is priced. */
const MAX_FALLBACK_MODELS = 100;
/** Maximum number of images per request. */
const MAX_IMAGES = 10;
/** Models that search the web once for each request, whether or not it asks for that. */
const SEARCH_MODEL = /-search(?:-|$)/;
/** Searches of the vendor's that are counted for a tool without a limit of its own. */
const UNLIMITED_SEARCHES = 10;
/** Maximum number of searches: more are in no answer's usage. */
const MAX_SEARCHES = 1e6;
/** Upper limit for counts of tokens and responses, so that products stay finite. */
const MAX_TOKENS = 1e12;

/** One requested response: its maximum length, number and service tier. */
interface RequestedAnswer {
  readonly tokens: number | undefined;
  readonly times: number;
  readonly tier: string | undefined;
  /** The model that generates it, where it is not the target's own; empty: the vendor chooses one. */
  readonly model?: string;
}

/** Returns a model's prices by its name at a provider. */
export type PriceLookup = (model: string, provider: Target["provider"]) => Target["prices"];

/**
 * Returns the worst case of an exchange at its most expensive target. Each fallback model that the vendor may call is counted
 * with a full response, because each may be billed. A promise for a large request, which is read in many turns.
 */
export function worstCase(
  exchange: RouteExchange | SendExchange,
  translations: Translations,
  pricesOf: PriceLookup = () => undefined,
): WorstCase | Promise<WorstCase> {
  if (!exchange.operation.generates) return { maximum: NO_SPENDING, minimum: NO_SPENDING, plausibleTokens: 0 };
  const { body, form } = exchange;
  if (form) return worstCaseOf(exchange, formInput(form), pricesOf);
  // Only who decodes the conversation knows which base64 the model reads as media, and which as text.
  const read = body.length > SHORT_BODY ? translations.tokensIn(exchange) : undefined;
  if (read instanceof Promise)
    return read.then((tokens) => worstCaseOf(exchange, tokens ?? tokensByBytes(body), pricesOf));
  return worstCaseOf(exchange, read ?? tokensByBytes(body), pricesOf);
}

function worstCaseOf(
  exchange: RouteExchange | SendExchange,
  { maximum: most, likely, media = {} }: InputEstimate,
  pricesOf: PriceLookup,
): WorstCase {
  const { protocol, targets, time } = exchange;
  const drawing = requestedDrawing(exchange);
  const request: RequestedWork = {
    protocol,
    time,
    inputTokens: { most, likely, media },
    answers: requestedAnswers(exchange),
    searches: requestedSearches(exchange),
    drawing,
    answerImageTokens: answerImageTokens(exchange),
  };
  const maximum = { tokens: most, cost: 0 };
  const minimum = { tokens: likely, cost: 0 };
  let longest = 0;
  let unpriced: string | undefined;
  for (const target of targets) {
    const at = worstCaseAt(target, request, pricesOf);
    maximum.tokens = Math.max(maximum.tokens, at.tokens);
    maximum.cost = Math.max(maximum.cost, at.maxCost);
    minimum.cost = Math.max(minimum.cost, at.minCost);
    longest = Math.max(longest, at.requestedOutput);
    unpriced = at.unpriced ?? unpriced;
  }
  return { maximum, minimum, plausibleTokens: plausibleInput(likely, exchange.body) + longest, unpriced };
}

/** Tokens of a request, and those of media among the most. */
interface InputTokens {
  readonly most: number;
  readonly likely: number;
  readonly media: NonNullable<InputEstimate["media"]>;
}

/** What a request asks for, at whichever target. */
interface RequestedWork {
  readonly protocol: Protocol;
  /** Unix milliseconds, for the prices of that time. */
  readonly time: number;
  readonly inputTokens: InputTokens;
  readonly answers: readonly RequestedAnswer[];
  /** Web searches that the vendor may make and charge. */
  readonly searches: number;
  readonly drawing: RequestedDrawing;
  /** Returns the tokens of each image that the request asks a model for; undefined: it asks for none. */
  readonly answerImageTokens: ((model: string) => number) | undefined;
}

/** The worst case at one target. Costs in nano-dollars; 0 where no price is known. */
interface TargetWorstCase {
  readonly tokens: number;
  readonly maxCost: number;
  readonly minCost: number;
  /** Tokens of the longest response for which the request sets a limit. */
  readonly requestedOutput: number;
  readonly unpriced: string | undefined;
}

function worstCaseAt(target: Target, request: RequestedWork, pricesOf: PriceLookup): TargetWorstCase {
  const { protocol, time, inputTokens, answers, searches, drawing, answerImageTokens } = request;
  const { prices, provider } = target;
  const untranslated = Marketplace.isNative(target, protocol.name);
  const price = prices?.versionAt(time)?.price;
  let [tokens, maxCost, requestedOutput] = [0, 0, 0];
  let unpriced: string | undefined;
  // No translation sends a limit: other protocols have none, and other vendors search more than once.
  const requested = searches === 0 || untranslated ? searches : Math.max(searches, UNLIMITED_SEARCHES);
  for (const { model, tier, times, tokens: limit } of answers) {
    // Under translation only the target's model is called.
    if (model !== undefined && !untranslated) continue;
    const output = outputLimitAt(target, limit, untranslated, answerImageTokens) * times;
    tokens += inputTokens.most + output;
    if (limit !== undefined) requestedOutput = Math.max(requestedOutput, output);
    const knownPrice = model === undefined ? price : pricesOf(model, provider)?.versionAt(time)?.price;
    if (!knownPrice && model !== undefined)
      unpriced = model === "" ? "a model of the vendor's choice" : `the model ${model}`;
    if (tier === "fast" && knownPrice && !knownPrice.fast && untranslated) unpriced = "the fast mode";
    const assumedPrice = knownPrice ?? price;
    if (!assumedPrice) continue;
    const imagesUsd = protocol.output
      ? times * Math.max(highestPrice(assumedPrice.image), highestPrice(assumedPrice.image_edit))
      : 0;
    const usage = dearestUsage(inputTokens, output, assumedPrice, tier);
    if (assumedPrice.web_search)
      usage.serverTools = { web_search: Math.max(requested, SEARCH_MODEL.test(target.model) ? 1 : 0) };
    maxCost += cost(usage, assumedPrice);
    maxCost += Math.ceil(imagesUsd * NANO_PER_USD);
  }
  if (untranslated && drawing.tokens > 0 && price) {
    maxCost += Math.ceil(drawing.tokens * imageToolRate(price) * NANO_PER_RATE);
    if (drawing.models.some((model) => !hasDrawingRate(model, price))) unpriced = "images that a tool draws";
  }
  const minCost = price ? cost({ in: { total: inputTokens.likely }, out: {}, raw: undefined }, price) : 0;
  return { tokens, maxCost, minCost, requestedOutput, unpriced };
}

/**
 * Returns a response's maximum tokens. A request that is not translated is sent unchanged: a provider may generate all that it
 * asks for.
 */
function outputLimitAt(
  { facts, maxOutputTokens, model }: Target,
  requested: number | undefined,
  untranslated: boolean,
  imageTokens: RequestedWork["answerImageTokens"],
): number {
  if (requested === undefined) return maxOutputTokens ?? imageTokens?.(model) ?? UNKNOWN_OUTPUT;
  return untranslated ? requested : Math.min(requested, facts?.output ?? requested);
}

const plausibleInput = (input: number, body: Body): number =>
  Math.min(input, Math.ceil(body.length / USUAL_BYTES_PER_TOKEN));

/** Nano-dollars per dollar. */
const NANO_PER_USD = 1e9;
/** Nano-dollars per token at a rate of one dollar per million. */
const NANO_PER_RATE = 1000;

/** An image that a tool of the vendor's may draw: its tokens, and the models it may be drawn by; further ones count once drawn. */
interface RequestedDrawing {
  readonly tokens: number;
  readonly models: readonly (string | undefined)[];
}

function requestedDrawing({ body, protocol: { output } }: RouteExchange | SendExchange): RequestedDrawing {
  const nothing = { tokens: 0, models: [] };
  const member = output?.imageTool && body.member("tools");
  if (!output?.imageTool || !member) return nothing;
  const [type, tokensOf] = output.imageTool;
  const text = body.slice(member.start, member.end);
  if (!text.includes(type) && !text.includes(ESCAPE)) return nothing;
  const all = [body.uniqueValue("tools")].flat() as (Record<string, unknown> | null)[];
  const tools = all.filter((tool) => tool?.["type"] === type);
  const models = tools.map((tool) => (typeof tool?.["model"] === "string" ? tool["model"] : undefined));
  // The words may be deeper in a tool, which some servers may read.
  if (tools.length === 0) return { tokens: atLeastNone(tokensOf(undefined, () => "")), models };
  let tokens = 0;
  for (const [i, tool] of tools.entries())
    tokens = Math.max(tokens, atLeastNone(tokensOf(models[i], (name) => tool?.[name])));
  return { tokens, models };
}

/** Returns what computes the tokens of an image that is the whole answer. */
function answerImageTokens({ body, form, protocol }: RouteExchange | SendExchange): RequestedWork["answerImageTokens"] {
  const { images } = protocol;
  if (!images || !protocol.output) return undefined;
  // What has not arrived of a form may be the dearest.
  const asked = (name: string) =>
    form ? (form.fields.get(name) ?? (form.replayable ? undefined : "")) : body.uniqueValue(name);
  return (model) => atLeastNone(images.tokensOf(model, asked));
}

/** Returns a protocol's figure, or the usual one where it is none: no limit compares with NaN, and a negative one would add room. */
const atLeastNone = (tokens: number): number => (tokens >= 0 ? Math.min(tokens, MAX_TOKENS) : UNKNOWN_OUTPUT);

/** Returns how many web searches a request allows the vendor to make: what they find is counted once it has been found. */
function requestedSearches({ body, protocol: { output } }: RouteExchange | SendExchange): number {
  const { searchMarks: marks = [] } = output ?? {};
  // Vendors search once for such a member.
  const always = marks.some((name) => body.member(name)) ? 1 : 0;
  const tools = marks.length > 0 && body.member("tools");
  if (!tools) return always;
  const text = body.slice(tools.start, tools.end);
  if (!text.includes(ESCAPE) && !marks.some((mark) => text.includes(mark))) return always;
  let found = always;
  for (const tool of [body.uniqueValue("tools")].flat() as ({ type?: unknown; max_uses?: unknown } | null)[]) {
    const type = tool?.type;
    const isSearch =
      typeof type === "string" ? (mark: string) => type.startsWith(mark) : (mark: string) => isIn(tool, mark);
    if (marks.some(isSearch)) found += isCount(tool?.max_uses) ? Math.ceil(tool.max_uses) : UNLIMITED_SEARCHES;
  }
  return Math.min(MAX_SEARCHES, found);
}

/** Reports whether pictures of a drawing tool have a rate. Which model the vendor's default is, its answer tells. */
const hasDrawingRate = (
  model: string | undefined,
  { image_generation: rates = {} }: Parameters<typeof cost>[1],
): boolean =>
  Object.hasOwn(rates, "*") || (model === undefined ? Object.keys(rates).length > 0 : Object.hasOwn(rates, model));

/** Returns the highest rate for a drawn image's tokens. */
const imageToolRate = ({ image_generation: models = {} }: Parameters<typeof cost>[1]): number =>
  Math.max(0, ...Object.values(models).map(({ output = 0, output_image = output }) => output_image));

/** Returns the highest price of an image in USD. */
const highestPrice = (each: number | Readonly<Record<string, number>> = 0): number =>
  typeof each === "number" ? each : Math.max(0, ...Object.values(each));

/** The rates of media that may have one of their own. */
const MEDIA_RATES = { audio: "input_audio", image: "input_image", video: "input_video" } as const;

/**
 * Returns usage with the most expensive kinds of tokens: input may be written to a long-lived cache, output may be an image,
 * speech or reasoning. Media count at their own rates where these are higher.
 */
function dearestUsage(
  { most: input, media }: InputTokens,
  output: number,
  price: Parameters<typeof cost>[1],
  tier: string | undefined,
): Usage {
  const { input: plain = 0, cache_write: short = plain, cache_write_1h: long = short, output: text = 0 } = price;
  const usage: Usage = { in: { total: input }, out: { total: output }, raw: undefined };
  let left = input;
  for (const name in media) {
    const kind = name as keyof typeof media;
    if (kind === "file" || (price[MEDIA_RATES[kind]] ?? 0) <= Math.max(plain, short, long)) continue;
    usage.in[kind] = Math.min(media[kind] ?? 0, left);
    left -= usage.in[kind];
  }
  if (long > plain && long >= short) usage.in.write = { "1h": left };
  else if (short > plain) usage.in.write = { unsplit: left };
  const { output_image: drawn = 0, output_audio: spoken = 0, reasoning: thought = 0 } = price;
  const dearest = Math.max(drawn, spoken, thought);
  if (dearest > text) usage.out[dearest === drawn ? "image" : dearest === spoken ? "audio" : "reasoning"] = output;
  if (tier !== undefined) usage.tier = tier;
  return usage;
}

/** Returns the input of a form. Those of its files that have not arrived may be as many as vendors take. */
function formInput({ files, replayable }: NonNullable<RouteExchange["form"]>): InputEstimate {
  const image = FILE_TOKENS * Math.max(1, files, replayable ? 0 : MAX_FILES);
  return { likely: FORM_TOKENS, maximum: WORDS_TOKENS + image, media: { image } };
}

function tokensByBytes(body: Body): InputEstimate {
  const most = mostTokens(body);
  return { likely: most, maximum: most };
}

/** Returns the tokens of a body by its bytes, and lists of token ids by their number: an id may be one digit. */
function mostTokens(body: Body): number {
  let { length: bytes } = body;
  let ids = 0;
  for (const { name, kind, start, end } of body.scan?.members ?? []) {
    if (kind !== "array" || !beginsWithNumber(body.slice(start, end))) continue;
    const list = [body.uniqueValue(name)].flat(LIST_LEVELS);
    const numbers = list.filter((each) => typeof each === "number").length;
    ids += numbers;
    if (numbers === list.length) bytes -= end - start;
  }
  return ids + Math.ceil(bytes / BYTES_PER_TOKEN);
}

/** Reports whether the first value in a list, or in lists in it, is a number. */
function beginsWithNumber(list: Buffer): boolean {
  let at = 0;
  while (BEFORE_VALUES.has(list[at])) at++;
  return DIGITS.has(list[at]);
}

/**
 * Returns the responses that a request asks for, the main one first; one of zero tokens where the protocol has no output
 * tokens.
 */
function requestedAnswers({ body, form, protocol }: RouteExchange | SendExchange): RequestedAnswer[] {
  const { output } = protocol;
  const at = valueReader(body);
  const tier = premiumTier(protocol, (name) => at([name]));
  if (!output) return [{ tokens: 0, times: 1, tier }];
  const tokens = outputLimitOf(output.tokens, at);
  const first: RequestedAnswer = {
    tokens,
    times: form ? formAnswerCount(form, output.multipliers) : answerCount(output.multipliers, at),
    tier,
  };
  const further = output.fallbackModels === undefined ? undefined : at([output.fallbackModels]);
  if (typeof further === "string") return [first, ...Array(UNNAMED_MODELS).fill({ tokens, times: 1, tier, model: "" })];
  if (!Array.isArray(further)) return [first];
  if (further.length > MAX_FALLBACK_MODELS) {
    const message = `${output.fallbackModels} names more than ${MAX_FALLBACK_MODELS} models.`;
    throw new GatewayError("invalid_field", { message, param: output.fallbackModels as string });
  }
  const others = further.map((entry: Record<string, unknown> | null): RequestedAnswer => {
    const [member = ""] = output.premiumTier ?? [];
    const own = entry?.[member];
    return {
      tokens: outputLimitOf(output.tokens, (path) => valueBelow(entry, path)) ?? tokens,
      times: 1,
      tier: own === undefined ? tier : premiumTier(protocol, (name) => (name === member ? own : at([name]))),
      model: typeof entry?.["model"] === "string" ? entry["model"] : "",
    };
  });
  return [first, ...others];
}

function outputLimitOf(paths: readonly MemberPath[], at: (path: MemberPath) => unknown): number | undefined {
  let longest: number | undefined;
  for (const path of paths) {
    const limit = numberOf(at(path));
    if (isCount(limit) && (longest === undefined || limit > longest)) longest = Math.ceil(limit);
  }
  return longest === undefined ? undefined : Math.min(MAX_TOKENS, longest);
}

function answerCount(paths: readonly MemberPath[], at: (path: MemberPath) => unknown): number {
  let [most, lists] = [1, 1];
  for (const path of paths) {
    const value = numberOf(at(path));
    if (isCount(value)) most = Math.max(most, Math.ceil(value));
    // A list of numbers is one text, as tokens.
    if (Array.isArray(value) && typeof value[0] !== "number") lists *= Math.max(1, value.length);
  }
  return Math.min(MAX_TOKENS, most * lists);
}

/** Returns the count in a form. The rest of an incomplete form is unknown: then it is at least the vendors' maximum. */
function formAnswerCount(
  { fields, replayable }: NonNullable<RouteExchange["form"]>,
  paths: readonly MemberPath[],
): number {
  const most = answerCount(paths, ([name]) => fields.get(String(name)));
  // Text that is not a number here may be one to other servers.
  const here = paths.every(([name]) => {
    const text = fields.get(String(name));
    return text === undefined ? replayable : isCount(numberOf(text));
  });
  return here ? most : Math.max(most, MAX_IMAGES);
}

/** Returns a function that reads values by their path. Each object is parsed once: several paths lead into one. */
function valueReader(body: Body): (path: MemberPath) => unknown {
  let parsed: Map<string, unknown> | undefined;
  return (path) => {
    const name = path[0] as string;
    const member = body.member(name);
    // A long text is not a limit.
    if (!member || (member.kind === "string" && member.end - member.start > MAX_NUMBER_BYTES)) return undefined;
    if (member.kind === "number") return path.length > 1 ? undefined : body.value(name);
    parsed ??= new Map();
    // Of a duplicate member a server may read either: refused.
    return valueBelow(
      parsed.getOrInsertComputed(name, () => body.uniqueValue(name)),
      path,
      1,
    );
  };
}

function valueBelow(value: unknown, path: MemberPath, from = 0): unknown {
  for (let i = from; i < path.length; i++)
    value = (value as Record<string | number, unknown> | null | undefined)?.[path[i] as string | number];
  return value;
}

/**
 * Maximum bytes of a number written as a string, with any number of zeros: servers read 4,300 digits, each may be an escape.
 */
const MAX_NUMBER_BYTES = 26_000;
/** Numbers in the forms that some servers accept: `2_0`, digits of any script. */
const FOREIGN = /^[\s\p{Nd}_.+-]+$/u;

/** Converts a string to its number, as some servers do. An unknown digit counts as nine. */
function numberOf(value: unknown): unknown {
  if (typeof value !== "string" || value === "") return value;
  if (!FOREIGN.test(value)) return Number(value);
  return Number(
    value
      .normalize("NFKC")
      .replaceAll("_", "")
      .replace(/(?!\d)\p{Nd}/gu, "9"),
  );
}

/** A request whose output limit exceeds its models' maximum. */
export interface OutputClamp {
  /** Edits that reduce the limit to the maximum. */
  readonly edits: readonly Edit[];
  /** The member that holds the limit. */
  readonly path: string;
  /** Tokens of the longest response. */
  readonly most: number;
}

/**
 * Returns the edits for a request whose output limit exceeds its models' maximum, so that the reservation matches the request
 * sent. Undefined where the limit is within it, or the maximum is unknown; translations apply the limit themselves.
 */
export function clampOutput({ body, protocol, targets }: RouteExchange): OutputClamp | undefined {
  let most = 0;
  for (const target of targets)
    if (Marketplace.isNative(target, protocol.name))
      most = Math.max(most, target.facts?.output ?? Number.POSITIVE_INFINITY);
  if (most === 0 || most === Number.POSITIVE_INFINITY) return undefined;
  const at = valueReader(body);
  const longer = (protocol.output?.tokens ?? []).filter((names) => {
    const asked = numberOf(at(names));
    return isCount(asked) && asked > most;
  });
  const [first] = longer;
  if (!first) return undefined;
  const bytes = Buffer.from(String(most));
  return { edits: longer.map((names) => ({ ...placeOf(body, names), bytes })), path: first.join("."), most };
}

/** Returns the position of an existing member's value. */
function placeOf(body: Body, [name, ...further]: MemberPath): { start: number; end: number } {
  let { start, end } = body.member(String(name)) as NamedMember;
  for (const each of further) {
    const inner = scan(body.slice(start, end), { surrogates: "allow" }).find(String(each)) as NamedMember;
    [start, end] = [start + inner.start, start + inner.end];
  }
  return { start, end };
}

type NamedMember = NonNullable<ReturnType<Body["member"]>>;

const isIn = (value: unknown, name: string): boolean =>
  typeof value === "object" && value !== null && Object.hasOwn(value, name);

const isCount = (value: unknown): value is number => typeof value === "number" && value > 0;
