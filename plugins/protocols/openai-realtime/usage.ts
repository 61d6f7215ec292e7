import { asCount, asObject, dropUndefined, type JsonObject, parseJson, type Usage } from "model-gateway/protocol";

type TranscriptionUsage = NonNullable<Usage["besides"]>[number];

const RESPONSE_DONE = "response.done";
const TRANSCRIBED = "conversation.item.input_audio_transcription.completed";
/** More tokens than any answer of a connection has: a report of more is ignored, and does not spoil the sum of the others. */
const MAX_TOKENS = 1e8;
/** The events that report a session's settings; `transcription_session.…` before the API was final. */
const SESSION = /^(?:transcription_)?session\.(?:created|updated)$/;
/** One of these is in each event that is read. */
const MARKS = [RESPONSE_DONE, TRANSCRIBED, "session."].map((mark) => Buffer.from(mark));

/**
 * Returns a reader that adds up a connection's usage: that of each `response.done`, and of each transcription of the user's speech,
 * which another model makes. The session's settings name that model; its events do not. [S: RealtimeServerEvent]
 */
export function messageUsageReader(): (message: Buffer, previous?: Usage) => Usage | undefined {
  let transcriber: string | undefined;
  return (message, previous) => {
    if (!MARKS.some((mark) => message.includes(mark))) return previous;
    const event = asObject(parseJson(message.toString()));
    const type = event?.["type"];
    if (type === RESPONSE_DONE) {
      const usage = readUsage(event?.["response"]);
      return usage && previous ? addUsages(previous, usage) : (usage ?? previous);
    }
    if (type === TRANSCRIBED) return addTranscription(previous, asObject(event?.["usage"]), transcriber);
    if (typeof type === "string" && SESSION.test(type)) transcriber = transcriberOf(asObject(event?.["session"]) ?? {});
    return previous;
  };
}

function transcriberOf(session: JsonObject): string | undefined {
  const audio = asObject(asObject(session["audio"])?.["input"]) ?? {};
  const settings = asObject(audio["transcription"] ?? session["input_audio_transcription"]) ?? {};
  return typeof settings["model"] === "string" ? settings["model"] : undefined;
}

/** Adds a transcription. What is billed by its duration has no tokens: the model's price tells that they do not cover it. */
function addTranscription(previous: Usage | undefined, raw: JsonObject | undefined, model: string | undefined) {
  const usage = raw && readUsage({ usage: raw });
  if (!usage) return previous;
  const { besides = [], ...before } = previous ?? { in: { total: 0 }, out: { total: 0 }, raw };
  const made: TranscriptionUsage = { in: usage.in, out: usage.out, ...(model === undefined ? {} : { model }) };
  const known = besides.find((each) => each.model === model);
  const others = besides.filter((each) => each !== known);
  return { ...before, besides: [...others, known ? { ...made, ...addTokens(known, made) } : made] };
}

/** Decodes the member `usage` of a response. */
export function readUsage(json: unknown, previous?: Usage): Usage | undefined {
  const raw = asObject(asObject(json)?.["usage"]);
  if (!raw || [raw["input_tokens"], raw["output_tokens"]].some((count) => Number(count) > MAX_TOKENS)) return previous;
  const input = asObject(raw["input_token_details"]) ?? {};
  const cached = asObject(input["cached_tokens_details"]) ?? {};
  const output = asObject(raw["output_token_details"]) ?? {};
  return {
    in: dropUndefined({
      total: asCount(raw["input_tokens"]),
      cached: asCount(input["cached_tokens"]),
      audio: asCount(input["audio_tokens"]),
      image: asCount(input["image_tokens"]),
      cachedAudio: asCount(cached["audio_tokens"]),
      cachedImage: asCount(cached["image_tokens"]),
    }),
    out: dropUndefined({ total: asCount(raw["output_tokens"]), audio: asCount(output["audio_tokens"]) }),
    raw,
  };
}

/** Adds the usage of a response. */
function addUsages(previous: Usage, { in: input, out, raw }: Usage): Usage {
  return { ...previous, ...addTokens(previous, { in: input, out }), raw };
}

/** Adds the tokens of two usages; counts that neither has remain unknown. */
function addTokens(first: Pick<Usage, "in" | "out">, second: Pick<Usage, "in" | "out">): Pick<Usage, "in" | "out"> {
  const sum = (a: number | undefined, b: number | undefined) =>
    a === undefined && b === undefined ? undefined : (a ?? 0) + (b ?? 0);
  return {
    in: dropUndefined({
      total: sum(first.in.total, second.in.total),
      cached: sum(first.in.cached, second.in.cached),
      audio: sum(first.in.audio, second.in.audio),
      image: sum(first.in.image, second.in.image),
      cachedAudio: sum(first.in.cachedAudio, second.in.cachedAudio),
      cachedImage: sum(first.in.cachedImage, second.in.cachedImage),
    }),
    out: dropUndefined({
      total: sum(first.out.total, second.out.total),
      audio: sum(first.out.audio, second.out.audio),
    }),
  };
}
