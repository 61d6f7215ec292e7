/**
 * What a recorded answer costs, reckoned anew from the raw body and the vendors' documents, in whole numbers of any size: not
 * with the gateway's readers nor with its arithmetic, which it shall judge.
 */

/** USD per million tokens, each rate another one, so that a token counted as a wrong kind shows. */
export const RATES = {
  input: 3.000001,
  cached: 0.300007,
  cache_write: 3.750011,
  cache_write_1h: 6.000013,
  output: 15.000017,
  reasoning: 14.000019,
  input_audio: 32.000023,
  cached_audio: 0.500047,
  cached_image: 0.600053,
  output_audio: 64.000029,
  input_image: 8.000031,
  output_image: 30.000037,
  input_video: 5.000041,
} as const;
/** USD for each search and picture, the last by quality and size, and the factor of all rates in service tiers. */
export const SEARCH = 0.010001;
export const IMAGES: Readonly<Record<string, number>> = {
  "": 0.020003,
  "1024x1024": 0.030007,
  "high 1024x1024": 0.040009,
};
export const TIERS = { flex: 2, priority: 3, batch: 5 } as const;
/** The factors of what many tokens cost, and of what a tool draws. */
const [STEP, MANY, DRAWN] = [200_000, 7, 11];

/** The same as gateway.yaml says it. */
export const PRICE = {
  ...stepped(1),
  web_search: SEARCH,
  image: IMAGES,
  image_edit: IMAGES,
  image_generation: { "*": times(DRAWN) },
  ...Object.fromEntries(Object.entries(TIERS).map(([tier, factor]) => [tier, stepped(factor)])),
};

function stepped(factor: number) {
  return { ...times(factor), above: [{ tokens: STEP, ...times(factor * MANY) }] };
}

function times(factor: number) {
  return Object.fromEntries(Object.entries(RATES).map(([name, usd]) => [name, Number((usd * factor).toFixed(6))]));
}

type Json = { [name: string]: Json | undefined } & unknown[] & string & number;
type Tokens = { [name in keyof typeof RATES]?: number };
type Counted = Tokens & { searches?: number; tier?: unknown; pictures?: number; drawn?: Tokens; besides?: Tokens[] };

const number = (value: unknown): number => (typeof value === "number" ? value : 0);

/** The JSON texts of a body: one, those of its events, or the elements of its list. */
function jsonOf(body: string): Json[] {
  const text = body.trimStart();
  if (text.startsWith("[")) return JSON.parse(text) as Json[];
  if (text.startsWith("{")) return [JSON.parse(text) as Json];
  return body.split(/\r?\n\r?\n/).flatMap((event) => {
    const data = event
      .split(/\r?\n/)
      .flatMap((line) => (line.startsWith("data:") ? line.slice(5).replace(/^ /, "") : []))
      .join("\n");
    return data.startsWith("{") ? [JSON.parse(data) as Json] : [];
  });
}

const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** What is left of a sum when its parts are taken out, one after the other, none of them more than is left. */
function parts<T extends string>(
  total: number,
  wanted: [name: T, tokens: number][],
): [Record<T, number>, rest: number] {
  let rest = total;
  const taken = wanted.map(([name, tokens]) => {
    const part = Math.min(tokens, rest);
    rest -= part;
    return [name, part] as const;
  });
  return [Object.fromEntries(taken) as Record<T, number>, rest];
}

/** What DeepSeek, Moonshot and Mistral call what was read from the cache. */
const CACHED = ["prompt_cache_hit_tokens", "cached_tokens", "num_cached_tokens"];

/** Chat Completions and completions: parts stand in the totals. */
function chat(all: Json[]): Counted | undefined {
  const holder = all.findLast((json) => isObject(json["usage"]) || isObject(json["x_groq"]?.["usage"]));
  if (!holder) return undefined;
  const usage = (isObject(holder["usage"]) ? holder["usage"] : holder["x_groq"]?.["usage"]) as Json;
  const [before, behind] = [usage["prompt_tokens_details"], usage["completion_tokens_details"]];
  let [total, out] = [number(usage["prompt_tokens"]), number(usage["completion_tokens"])];
  let audio = number(before?.["audio_tokens"]);
  if (number(usage["prompt_audio_seconds"]) > 0) {
    // Mistral tells the tokens of sound in the total of all alone.
    audio = Math.max(0, number(usage["total_tokens"]) - total - out);
    total += audio;
  } else out = Math.max(out, number(usage["total_tokens"]) - total);
  if (usage["completion_tokens"] === undefined) out = 0;
  const [given, input] = parts(total, [
    ["cache_write", number(before?.["cache_write_tokens"])],
    ["cached", number(CACHED.map((name) => usage[name]).reduce((a, b) => a ?? b, before?.["cached_tokens"]))],
    ["input_audio", audio],
    ["input_image", number(before?.["image_tokens"])],
    ["input_video", number(before?.["video_tokens"])],
  ]);
  const [came, output] = parts(out, [
    ["output_audio", number(behind?.["audio_tokens"])],
    ["output_image", number(behind?.["image_tokens"])],
    ["reasoning", number(behind?.["reasoning_tokens"])],
  ]);
  const tier = all.findLast((json) => json["service_tier"])?.["service_tier"] ?? usage["service_tier"];
  const searches = number((usage["server_tool_use_details"] as Json | undefined)?.["web_search_requests"]);
  return { ...given, input, ...came, output, tier, searches };
}

function responses(all: Json[]): Counted | undefined {
  const bodies = all.map((json) => (isObject(json["response"]) ? json["response"] : json) as Json);
  const body = bodies.findLast((json) => isObject(json["usage"]));
  const usage = body?.["usage"];
  if (!usage) return undefined;
  const [before, behind] = [usage["input_tokens_details"], usage["output_tokens_details"]];
  const [given, input] = parts(number(usage["input_tokens"]), [
    ["cache_write", number(before?.["cache_write_tokens"])],
    ["cached", number(before?.["cached_tokens"])],
  ]);
  const [came, output] = parts(number(usage["output_tokens"]), [["reasoning", number(behind?.["reasoning_tokens"])]]);
  const own = number(usage["server_side_tool_usage_details"]?.["web_search_calls"]);
  const made = ((body["output"] ?? []) as Json[]).filter((item) => {
    const what = item["action"]?.["type"] as unknown;
    return (item["type"] as unknown) === "web_search_call" && (what === undefined || what === "search");
  });
  const searches = own || number(body["tool_usage"]?.["web_search"]?.["num_requests"] ?? (made.length as Json));
  const tier = bodies.findLast((json) => json["service_tier"])?.["service_tier"];
  return { ...given, input, ...came, output, searches, tier, ...pictured(body["tool_usage"]?.["image_gen"]) };
}

/** What a tool has drawn, with a model of its own: all that comes out is an image where nothing else is told. */
function pictured(usage: Json | undefined): { drawn?: Tokens } {
  if (!usage) return {};
  const [before, behind] = [usage["input_tokens_details"], usage["output_tokens_details"]];
  const [given, input] = parts(number(usage["input_tokens"]), [["input_image", number(before?.["image_tokens"])]]);
  const out = number(usage["output_tokens"]);
  const [came, output] = parts(out, [["output_image", behind ? number(behind["image_tokens"]) : out]]);
  return { drawn: { ...given, input, ...came, output } };
}

/** Messages: what was read from and written to the cache stands beside the input; a delta says only what is new. */
function messages(all: Json[]): Counted | undefined {
  const told = all.flatMap((json) => {
    const usage = json["message"]?.["usage"] ?? json["usage"];
    return isObject(usage) ? [usage] : [];
  });
  if (told.length === 0) return undefined;
  const usage = Object.fromEntries(
    told.flatMap((each, n) => (n === 0 ? Object.entries(each) : withoutNulls(each))),
  ) as unknown as Json;
  const runs = (usage["iterations"] ?? []) as Json[];
  const besides = runs.filter((run) => /^(?:compaction|advisor_message)$/.test(String(run["type"])));
  return {
    ...ofMessages(usage),
    searches: number(usage["server_tool_use"]?.["web_search_requests"]),
    tier: usage["service_tier"],
    besides: besides.map(ofMessages),
  };
}

function ofMessages(usage: Json): Tokens {
  const written = number(usage["cache_creation_input_tokens"]);
  const split = usage["cache_creation"];
  const hour = number(split?.["ephemeral_1h_input_tokens"]);
  const five = number(split?.["ephemeral_5m_input_tokens"]);
  const [came, output] = parts(number(usage["output_tokens"]), [
    ["reasoning", number(usage["output_tokens_details"]?.["thinking_tokens"])],
  ]);
  return {
    input: number(usage["input_tokens"]),
    cached: number(usage["cache_read_input_tokens"]),
    cache_write: Math.max(five, written - hour),
    cache_write_1h: hour,
    ...came,
    output,
  };
}

const withoutNulls = (usage: Json) => Object.entries(usage).filter(([, value]) => (value as unknown) !== null);

/** Gemini: thoughts stand beside the candidates, results of tools beside the prompt; each frame tells all there is so far. */
function gemini(all: Json[]): Counted | undefined {
  let usage: Json | undefined;
  for (const json of all) {
    const told = json["usageMetadata"];
    if (isObject(told)) usage = (told["totalTokenCount"] === undefined ? Object.assign({}, usage, told) : told) as Json;
  }
  if (!usage) return undefined;
  const of = (lists: string[], name: string) =>
    lists
      .flatMap((list) => (usage?.[list] as Json[] | undefined) ?? [])
      .filter((each) => each["modality"] === (name as unknown))
      .reduce((sum, each) => sum + number(each["tokenCount"]), 0);
  const [heard, seen] = [of(["cacheTokensDetails"], "AUDIO"), of(["cacheTokensDetails"], "IMAGE")];
  const asked = ["promptTokensDetails", "promptTokenDetails", "toolUsePromptTokensDetails"];
  const [given, input] = parts(number(usage["promptTokenCount"]) + number(usage["toolUsePromptTokenCount"]), [
    ["cached_audio", heard],
    ["cached_image", seen],
    ["cached", Math.max(0, number(usage["cachedContentTokenCount"]) - heard - seen)],
    ["input_audio", Math.max(0, of(asked, "AUDIO") - heard)],
    ["input_image", Math.max(0, of(asked, "IMAGE") - seen)],
    ["input_video", Math.max(0, of(asked, "VIDEO") - of(["cacheTokensDetails"], "VIDEO"))],
  ]);
  const [candidates, thoughts] = [usage["candidatesTokenCount"], usage["thoughtsTokenCount"]];
  const prompt = number(usage["promptTokenCount"]) + number(usage["toolUsePromptTokenCount"]);
  const out =
    candidates === undefined && thoughts === undefined
      ? number(usage["totalTokenCount"]) - prompt
      : number(candidates) + number(thoughts);
  const [came, output] = parts(Math.max(0, out), [
    ["output_audio", of(["candidatesTokensDetails"], "AUDIO")],
    ["output_image", of(["candidatesTokensDetails"], "IMAGE")],
    ["reasoning", number(thoughts)],
  ]);
  const tier = usage["serviceTier"] ?? usage["trafficType"];
  return { ...given, input, ...came, output, searches: grounded(all), tier };
}

/** Searches of Gemini: up to the second generation one for each request, then each that is not empty. */
function grounded(all: Json[]): number {
  const asked = all.map((json) =>
    ((json["candidates"] ?? []) as Json[])
      .flatMap((each) => (each["groundingMetadata"]?.["webSearchQueries"] ?? []) as string[])
      .filter((query) => query !== ""),
  );
  const most = Math.max(0, ...asked.map((queries) => new Set(queries).size));
  return /^gemini-[12]/.test(String(all[0]?.["modelVersion"])) ? Math.min(1, most) : most;
}

function embeddings(all: Json[]): Counted | undefined {
  const usage = all.findLast((json) => isObject(json["usage"]))?.["usage"];
  return (
    usage && {
      input: number(usage["prompt_tokens"] ?? usage["total_tokens"]),
      output: number(usage["completion_tokens"]),
    }
  );
}

function images(all: Json[]): Counted | undefined {
  const [answer] = all;
  const made = answer?.["data"] as Json[] | undefined;
  const usage = all.findLast((json) => isObject(json["usage"]))?.["usage"] ?? ({} as Json);
  if (!made && usage["input_tokens"] === undefined && usage["output_tokens"] === undefined) return undefined;
  const asked = [answer?.["quality"], answer?.["size"]].filter(Boolean).join(" ");
  const pictures = (made?.length ?? 0) * Number(micros(IMAGES[asked] ?? Number.NaN));
  const [given, input] = parts(number(usage["input_tokens"]), [
    ["cached", number(usage["input_tokens_details"]?.["cached_tokens"])],
    ["input_image", number(usage["input_tokens_details"]?.["image_tokens"])],
  ]);
  const split = usage["output_tokens_details"];
  const total = number(usage["output_tokens"]);
  const [came, output] = parts(total, [["output_image", split ? number(split["image_tokens"]) : total]]);
  return { ...given, input, ...came, output, pictures };
}

const READERS: Record<string, (all: Json[]) => Counted | undefined> = {
  "openai-chat": chat,
  "openai-completions": chat,
  "openai-responses": responses,
  "anthropic-messages": messages,
  gemini,
  "openai-embeddings": embeddings,
  "openai-images": images,
};

/** Nano-dollars; undefined where the answer tells no usage. */
export function costOf(protocol: string, body: string): bigint | undefined {
  let counted: Counted | undefined;
  try {
    counted = READERS[protocol]?.(jsonOf(body));
  } catch {
    return undefined;
  }
  if (!counted) return undefined;
  const tier = TIERS[String(counted.tier).toLowerCase().replace("on_demand_", "") as keyof typeof TIERS] ?? 1;
  const factorOf = (of: Tokens) => tier * (tokensIn(of) > STEP ? MANY : 1);
  const apart = BigInt(counted.searches ?? 0) * micros(SEARCH) + BigInt(counted.pictures ?? 0);
  const own = apart * 1_000_000n + sum(counted, factorOf(counted)) + sum(counted.drawn ?? {}, DRAWN);
  const besides = (counted.besides ?? []).map((each) => sum(each, factorOf(each)));
  return [own, ...besides].reduce((all, pico) => all + (pico + 500n) / 1000n, 0n);
}

const sum = (counted: Tokens, factor: number): bigint =>
  Object.entries(RATES).reduce(
    (all, [name, usd]) => all + BigInt(counted[name as keyof Tokens] ?? 0) * micros(usd) * BigInt(factor),
    0n,
  );

const OUT = ["output", "reasoning", "output_audio", "output_image"];

const tokensIn = (counted: Tokens): number =>
  Object.keys(RATES).reduce((all, name) => all + (OUT.includes(name) ? 0 : (counted[name as keyof Tokens] ?? 0)), 0);

/** Millionths of a dollar. */
const micros = (usd: number): bigint => BigInt(usd.toFixed(6).replace(".", ""));
