import { hash } from "node:crypto";
import t, { type Test } from "tap";
import { DeliveredTokens } from "../../plugins/usage/delivered-tokens.ts";
import { tokensInJson } from "../../plugins/usage/requested.ts";
import { deliveredOutput } from "../../plugins/usage/settlement.ts";
import { UnseenReasoning } from "../../plugins/usage/unseen-reasoning.ts";
import { JsonUsage } from "../../src/core/json-usage.ts";
import type { DoneExchange } from "../../src/core/phases.ts";
import type { Protocol } from "../../src/core/protocol.ts";
import type { Usage } from "../../src/core/usage.ts";
import { loadProtocols } from "../../src/loader/discover.ts";
import { Frame } from "../../src/wire/frame.ts";
import { SseSplitter } from "../../src/wire/sse.ts";
import { valueAt } from "../support/locate-paths.ts";
import { jsonOf } from "../support/recorded.ts";
import { type Recording, recordings } from "../support/recordings.ts";

const answers = recordings((lines) => lines)?.filter(({ status }) => status < 300);
const all = answers?.filter((each) => each.streaming && each.kinds.includes("stream") && !isJoined(each));

/** Protocols in which thoughts are told in short only: they are left out on both sides. */
const IN_SHORT = new Set(["gemini", "openai-responses"]);

interface Sum {
  streams: number;
  /** Tokens that the providers counted, without thoughts of which the streams say nothing. */
  told: number;
  estimated: number;
}

/** Some fixtures are several streams, one after the other; only the last one's usage would be compared with all their text. */
function isJoined({ body }: Recording): boolean {
  const start = Buffer.from("event: response.created");
  return body.includes(start, body.indexOf(start) + 1) && body.includes(start);
}

function framesOf({ body }: Recording): Frame[] {
  const splitter = new SseSplitter();
  const frames = splitter.push(body);
  const rest = splitter.end();
  return rest ? [...frames, new Frame("event", rest)] : frames;
}

/** A protocol that finds no reasoning besides texts. */
const withTextsOnly = (protocol: Protocol): Protocol => ({ ...protocol, hiddenReasoning: () => () => [] });

const withoutThoughts = (protocol: Protocol): Protocol => {
  const { texts } = protocol;
  const response: Protocol["texts"]["response"] = (json) =>
    [...texts.response(json)].filter(({ kind }) => kind !== "reasoning");
  return { ...protocol, texts: { ...texts, response } };
};

const modelOf = ({ body }: Recording) => /"model(?:Version)?" ?: ?"([^"]+)"/.exec(body.toString())?.[1];

/** Of a stream that is cut behind its last frame, as if that told no usage; undefined where there is nothing to compare. */
function counted(protocol: Protocol, recording: Recording): Omit<Sum, "streams"> | undefined {
  const inShort = IN_SHORT.has(protocol.name);
  const model = modelOf(recording);
  const delivered = new DeliveredTokens(withTextsOnly(inShort ? withoutThoughts(protocol) : protocol), model);
  let usage: Usage | undefined;
  let thought = false;
  for (const frame of framesOf(recording)) {
    delivered.observe(frame);
    if (protocol.holdsUsage(frame)) usage = protocol.usage(frame.json(), usage) ?? usage;
    if (frame.bytes.includes("reasoning") || frame.bytes.includes("thinking"))
      for (const { kind, piece } of protocol.texts.response(frame.json()))
        thought ||= kind === "reasoning" && piece !== undefined;
  }
  if (usage?.out.total === undefined || delivered.tokens === 0) return undefined;
  const hidden = inShort || !thought ? (usage.out.reasoning ?? 0) : 0;
  const told = usage.out.total - (protocol.name === "anthropic-messages" ? 0 : hidden);
  return told > 0 ? { told, estimated: delivered.tokens } : undefined;
}

/** What a stream tells of its reasoning: in Responses often only that it has ended. */
type Trace = "measured" | "by the mean" | "none";

/** Too few recordings of a model name the same effort. */
const ANY_EFFORT = { effort: undefined };

const reasoned = new Map<string, readonly Recording[]>();

/** Tokens of reasoning that a stream may have without a trace: by its time, or learned from the other recorded answers of its vendor's model. */
function unseenReasoning(protocol: Protocol, recording: Recording): (delivered: DeliveredTokens) => number | undefined {
  const { vendor } = recording;
  const model = modelOf(recording) ?? "";
  const name = `${protocol.name} ${vendor} ${model}`;
  const others =
    reasoned.get(name) ??
    answers?.filter((each) => each.protocol === protocol.name && each.vendor === vendor && modelOf(each) === model);
  reasoned.set(name, others ?? []);
  const exchange = (usage?: Usage) =>
    ({
      attempt: { target: { provider: { name: vendor }, model }, protocol, dispatchedAt: 0 },
      operation: { task: "generate" },
      usage,
    }) as unknown as DoneExchange;
  const unseen = new UnseenReasoning();
  for (const other of others ?? []) {
    if (other.id === recording.id) continue;
    const { body, streaming } = other;
    if (streaming) {
      const delivered = new DeliveredTokens(protocol, model);
      for (const frame of framesOf(other)) delivered.observe(frame);
      unseen.learn(exchange(usageOfStream(protocol, other)), { delivered }, ANY_EFFORT);
    } else {
      const parser = new JsonUsage([protocol]);
      parser.push(body);
      unseen.learn(exchange(parser.end()), { parser }, ANY_EFFORT);
    }
  }
  return (delivered) => unseen.expected(exchange(), ANY_EFFORT, delivered);
}

function usageOfStream(protocol: Protocol, recording: Recording): Usage | undefined {
  let usage: Usage | undefined;
  for (const frame of framesOf(recording))
    if (protocol.holdsUsage(frame)) usage = protocol.usage(frame.json(), usage) ?? usage;
  return usage;
}

/** A provider's own clock, which some report with their usage: milliseconds until its model began, and until it ended. */
const PROVIDERS_CLOCK = /"service_ttft_ms": ?(\d+),"service_ttlt_ms": ?(\d+)/;

/**
 * Returns when a stream's frames came, as milliseconds since its request, where its provider tells: a model writes all tokens at one
 * pace, and the text last.
 */
function recordedTimes({ body }: Recording, frames: readonly Frame[], tokens = 0): ((i: number) => number) | undefined {
  const [, first, last] = PROVIDERS_CLOCK.exec(body.toString()) ?? [];
  if (first === undefined || tokens === 0) return undefined;
  const texts = frames.map((frame) => (/"content":"[^"]/.test(frame.bytes.toString()) ? 1 : 0));
  const left = (i: number) => texts.slice(i + 1).reduce((sum: number, text) => sum + text, 0);
  return (i) => Number(last) - (left(i) * (Number(last) - Number(first))) / tokens;
}

/** Of a stream that is cut behind its last frame with output, the usage before which is known: what is settled then. */
function settled(protocol: Protocol, recording: Recording): (Omit<Sum, "streams"> & { trace: Trace }) | undefined {
  const frames = framesOf(recording);
  const times = recordedTimes(recording, frames, usageOfStream(protocol, recording)?.out.total);
  const clock = { elapsed: 0 };
  const delivered = new DeliveredTokens(protocol, modelOf(recording), clock);
  const hiddenIn = protocol.hiddenReasoning?.();
  const unseen = unseenReasoning(protocol, recording);
  let usage: Usage | undefined;
  let out: Usage["out"] = {};
  let [isShown, isByMean, isCounted] = [false, false, false];
  for (const [i, frame] of frames.entries()) {
    clock.elapsed = times?.(i) ?? 0;
    delivered.observe(frame);
    if (protocol.holdsUsage(frame)) usage = protocol.usage(frame.json(), usage) ?? usage;
    const json = frame.json();
    const pieces = [...protocol.texts.response(json)].filter(
      ({ path, piece }) => (piece !== undefined || protocol.name !== "openai-responses") && valueAt(json, path) !== "",
    );
    isShown ||= pieces.some(({ kind }) => kind === "reasoning");
    isByMean ||= isOnlyEnd(json);
    if (pieces.length > 0 || [...(hiddenIn?.(json) ?? [])].length > 0) {
      out = deliveredOutput(usage?.out ?? {}, delivered, unseen(delivered));
      isCounted = (usage?.out.reasoning ?? 0) > 0;
    }
  }
  const told = usage?.out.total;
  const isUnknown = (usage?.out.reasoning ?? 0) > 0 && !isShown && !isCounted && delivered.reasoning === 0;
  if (!told || (!out.total && !isUnknown)) return undefined;
  return { told, estimated: out.total ?? 0, trace: isUnknown ? "none" : isByMean ? "by the mean" : "measured" };
}

/** The reasoning of an answer, streamed or whole, that is found besides its texts. */
function hidden(protocol: Protocol, recording: Recording): Omit<Sum, "streams"> | undefined {
  const { body, streaming } = recording;
  const hiddenIn = protocol.hiddenReasoning?.();
  const tokensIn = (json: unknown) => [...(hiddenIn?.(json) ?? [])].reduce((sum, [, tokens]) => sum + tokens, 0);
  let usage: Usage | undefined;
  let estimated = 0;
  if (streaming) {
    for (const frame of framesOf(recording)) {
      estimated += tokensIn(frame.json());
      if (protocol.holdsUsage(frame)) usage = protocol.usage(frame.json(), usage) ?? usage;
    }
  } else {
    const parser = new JsonUsage([protocol]);
    parser.push(body);
    usage = parser.end();
    estimated = tokensIn(jsonOf(body.toString()));
  }
  const told = usage?.out.reasoning;
  return told !== undefined && estimated > 0 ? { told, estimated } : undefined;
}

/** Reports whether an event is the end of a reasoning of which nothing else is known. */
function isOnlyEnd(event: unknown): boolean {
  const { item } = (event ?? {}) as { item?: Record<string, unknown> };
  const { type, encrypted_content, summary, content } = item ?? {};
  if (type !== "reasoning" || (event as { type: string }).type !== "response.output_item.done") return false;
  return !encrypted_content && [summary, content].every((parts) => !Array.isArray(parts) || parts.length === 0);
}

interface HalvedSum {
  all: Sum;
  halves: readonly [Sum, Sum];
}

/**
 * By protocol and vendor: of all, and of two halves, which have nothing in common.
 * @param group of streams that are summed apart
 */
async function sums<One extends Omit<Sum, "streams">>(
  count: (protocol: Protocol, recording: Recording) => One | undefined,
  group: (one: One) => string = () => "",
  of: readonly Recording[] = all ?? [],
): Promise<Map<string, HalvedSum>> {
  const protocols = new Map((await loadProtocols()).map((protocol) => [protocol.name, protocol]));
  const none = (): Sum => ({ streams: 0, told: 0, estimated: 0 });
  const found = new Map<string, HalvedSum>();
  for (const recording of of) {
    const one = count(protocols.get(recording.protocol) as Protocol, recording);
    if (!one) continue;
    const name = `${recording.protocol} ${recording.vendor}${group(one)}`;
    const sum = found.get(name) ?? { all: none(), halves: [none(), none()] };
    found.set(name, sum);
    const half = sum.halves[((hash("sha256", recording.id, "buffer")[0] as number) & 1) as 0 | 1];
    for (const part of [half, sum.all]) {
      part.streams++;
      part.told += one.told;
      part.estimated += one.estimated;
    }
  }
  return found;
}

const ratio = ({ told, estimated }: Sum): number => estimated / told;
const shown = (sum: Sum): string => `${ratio(sum).toFixed(3)} (${sum.streams} streams, ${sum.told} tokens)`;

const VENDORS: readonly string[] = [
  ...["anthropic-messages anthropic", "gemini google", "gemini vertex", "openai-responses openai"],
  ...["openai-responses azure", "openai-responses xai", "openai-chat openai", "openai-chat azure"],
  ...["openai-chat mistral", "openai-chat groq", "openai-chat deepseek", "openai-chat openrouter"],
  "openai-chat ollama",
];
/** Vendors whose recorded streams have no trace of reasoning, or nearly always only its end. */
const TRACELESS: ReadonlySet<string> = new Set(["openai-responses azure", "openai-chat openai", "openai-chat azure"]);

const UNKNOWN_VENDORS: ReadonlySet<string> = new Set(["local", "other"]);

function checkSum(t: Test, name: string, sum: HalvedSum | undefined): void {
  if (!sum) {
    t.fail(`no streams of ${name}`);
    return;
  }
  t.comment(`${name}: ${shown(sum.all)}; halves ${sum.halves.map(shown).join(", ")}`);
  t.ok(Math.abs(ratio(sum.all) - 1) <= 0.05, `${name} ${shown(sum.all)}`);
  // Of a few hundred tokens chance alone is more than that.
  for (const half of sum.halves) {
    const most = half.told >= 1000 ? 0.06 : half.told >= 300 ? 0.1 : Number.POSITIVE_INFINITY;
    t.ok(half.told === 0 || Math.abs(ratio(half) - 1) <= most, `${name}, one half: ${shown(half)}`);
  }
}

t.test(
  "the output of recorded streams is estimated within 5 % of each vendor's own counts, in total",
  { skip: !all && "recordings are absent" },
  async (t) => {
    const found = await sums(counted);
    for (const name of VENDORS) checkSum(t, name, found.get(name));
  },
);

t.test(
  "with reasoning of which they have a trace, cut streams are estimated within 5 % of each vendor's own counts, in total",
  { skip: !all && "recordings are absent" },
  async (t) => {
    const found = await sums(settled, ({ trace }) => (trace === "none" ? " without a trace of its reasoning" : ""));
    const byMean = await sums(settled, ({ trace }) => (trace === "by the mean" ? " by the mean" : ""));
    for (const name of VENDORS) if (!TRACELESS.has(name)) checkSum(t, name, found.get(name));
    for (const [name, sum] of [...found, ...byMean])
      if (/ without | by the mean/.test(name)) t.comment(`${name}: ${shown(sum.all)}`);
  },
);

t.test(
  "all cut streams of a vendor are estimated within 5 % of its own counts, in total, those without a trace of their reasoning too",
  { skip: !all && "recordings are absent" },
  async (t) => {
    const totals = new Map<string, Sum>();
    for (const [name, { all: sum }] of await sums(settled)) {
      const vendor = name.split(" ")[1] as string;
      const total = totals.get(vendor) ?? { streams: 0, told: 0, estimated: 0 };
      totals.set(vendor, total);
      for (const count of ["streams", "told", "estimated"] as const) total[count] += sum[count];
    }
    for (const [vendor, total] of totals) {
      if (total.streams < 2 || UNKNOWN_VENDORS.has(vendor)) continue;
      t.comment(`${vendor}: ${shown(total)}`);
      t.ok(Math.abs(ratio(total) - 1) <= 0.05, `${vendor} ${shown(total)}`);
    }
  },
);

t.test(
  "hidden reasoning of streams and whole answers is found within 5 % of OpenAI's and xAI's own counts, in total",
  { skip: !all && "recordings are absent" },
  async (t) => {
    const found = await sums(hidden, () => "", answers);
    const held = ["openai-responses openai", "openai-responses xai"];
    for (const name of held) checkSum(t, name, found.get(name));
    for (const [name, sum] of found) if (!held.includes(name)) t.comment(`${name}: ${shown(sum.all)}`);
  },
);

const asked = answers?.filter(({ request }) => request);

/** What the rest of a prompt is, where a request does not hold all of it: state at the vendor, the vendor's tools, media. */
const ELSEWHERE = new RegExp(
  [
    ...[
      "previous_response_id",
      "cachedContent",
      "encrypted_content",
      "container",
      "mcp",
      '"search_result',
      "conversation",
    ],
    ...["web_search", "code_exec", "computer", "google_?search", "text_editor", "bash_", "file_search", "url_?context"],
    ...["codeExecution", "shell", "tool_search", "image_generation", "advisor", "memory_", "thought_?signature"],
    ...[
      "base64",
      "search_settings",
      '\\.(?:pdf|jpe?g|png)"',
      "image_url",
      "input_image",
      "inline_?data",
      "file_?data",
      "input_audio",
      "input_file",
      "file_?uri",
    ],
    ...[
      '"type":"(?:document|image|file)"',
      "response_?format",
      "response_?(?:json_?)?schema",
      "output_(?:format|config)",
    ],
    ...['"signature"'],
  ].join("|"),
  "i",
);

/** Input tokens as the provider counted them, and as the request's text alone says. */
function countedInput(
  protocol: Protocol,
  { request, body, streaming, path }: Recording,
): Omit<Sum, "streams"> | undefined {
  if (protocol.conversation === undefined || ELSEWHERE.test(JSON.stringify(request))) return undefined;
  const usage = new JsonUsage([protocol]);
  let told: Usage | undefined;
  if (streaming) {
    for (const frame of framesOf({ body } as Recording))
      if (protocol.holdsUsage(frame)) told = protocol.usage(frame.json(), told) ?? told;
  } else {
    usage.push(body);
    told = usage.end();
  }
  // What the vendor's own tools read is not in the request.
  if (!told?.in.total || told.serverTools || told.in.toolUse) return undefined;
  const model = String((request as { model?: unknown }).model ?? path);
  return { told: told.in.total, estimated: tokensInJson(request, protocol, model) ?? 0 };
}

/**
 * Vendors whose sums are reported only. Their recordings are mostly small requests with tools, and the text by which a vendor
 * describes tools to its model is unknown; Vertex seems not to count JSON schemas.
 */
const REPORTED_ONLY = new Set(
  ["openai-chat azure", "openai-chat deepseek", "openai-chat groq", "openai-chat mistral", "openai-chat other"].concat(
    "gemini vertex",
  ),
);

t.test(
  "the input of recorded requests is estimated within 10 % of each vendor's own counts, in total",
  { skip: !asked && "recordings are absent" },
  async (t) => {
    const protocols = new Map((await loadProtocols()).map((protocol) => [protocol.name, protocol]));
    const found = new Map<string, Sum>();
    for (const recording of asked ?? []) {
      const one = countedInput(protocols.get(recording.protocol) as Protocol, recording);
      if (!one) continue;
      const name = `${recording.protocol} ${recording.vendor}`;
      const sum = found.get(name) ?? { streams: 0, told: 0, estimated: 0 };
      found.set(name, {
        streams: sum.streams + 1,
        told: sum.told + one.told,
        estimated: sum.estimated + one.estimated,
      });
    }
    for (const [name, sum] of found) {
      if (sum.told < 1000) continue;
      const said = `${name}: ${ratio(sum).toFixed(3)} (${sum.streams} requests, ${sum.told} tokens)`;
      t.comment(said);
      if (!REPORTED_ONLY.has(name)) t.ok(Math.abs(ratio(sum) - 1) <= 0.1, said);
    }
  },
);
