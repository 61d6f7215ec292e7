/** Streams of providers that break off at any byte: the vendors' own SDKs must raise an error, whichever protocol they speak. */
import { createHash } from "node:crypto";
import { connect, type Socket } from "node:net";
import t, { type Test } from "tap";
import { Frame } from "../../src/wire/frame.ts";
import { SseSplitter } from "../../src/wire/sse.ts";
import { KEY, startGateway } from "../support/gateway.ts";
import { entrance, WAYS } from "../support/nginx.ts";
import { type Recording, recordings } from "../support/recordings.ts";
import { SPOKEN } from "../support/translations.ts";
import { rawUpstream } from "../support/upstream.ts";
import { ASK, PROTOCOLS, type ProtocolName } from "../support/vendor-sdks.ts";

/** Bytes between two cuts; with 1 every byte is one. Behind nginx there are a third of the cuts unless told. */
const ASKED = process.env["GATEWAY_TEST_TRUNCATION_STRIDE"];
const STRIDE: Record<Route, number> = {
  directly: Number(ASKED ?? 1499),
  "behind nginx": Number(process.env["GATEWAY_TEST_TRUNCATION_NGINX_STRIDE"] ?? Number(ASKED ?? 1499) * 3),
};
/** How many cuts are under way at a time. */
const LANES = 16;
/** Milliseconds after which a client that still waits is one that hangs. */
const DEADLINE = 30_000;

/** Recorded streams: texts, calls, thoughts with signatures, refusals, structured answers. */
const STREAMS: Record<ProtocolName, readonly string[]> = {
  "openai-chat": [
    "ruby_llm__vcr_cassettes.chat_streaming_responses_mistral_mistral-small-latest_supports_streaming_responses__0",
    "ruby_llm__vcr_cassettes.chat_streaming_responses_openrouter_claude-haiku-4-5_supports_streaming_responses__0",
    "openinference__test_instrumentor.test_synchronous_streaming_chat_completions_emits_expected_span-True__0",
    "ruby_llm__vcr_cassettes.chat_function_calling_azure_grok-4-1-fast-non-reasoning_can_use_tools_without_parameters_in_mult__0",
    "mirascope__cassettes.test_structured_output_resume_stream.openai_gpt_4o_completions__0",
  ],
  "openai-responses": [
    "pydantic-ai__test_openai_responses.test_openai_responses_stream__0",
    "llm__test_openai_responses.test_responses_basic_streaming__0",
    "mirascope__llm.cassettes.test_model_context_stream_exports_genai_span__0",
    "logfire__test_openai.test_responses_stream__0",
    "mirascope__test_refusal.openai_gpt_4o_responses.async_stream__0",
  ],
  "anthropic-messages": [
    "openinference__cassettes.redacted-thinking-streaming__0",
    "openinference__test_instrumentor.test_anthropic_instrumentation_stream_message__0",
    "ruby_llm__vcr_cassettes.chat_function_calling_anthropic_claude-haiku-4-5_can_use_tools_without_parameters_in_multi-turn___0",
    "llm-anthropic__test_anthropic.test_tools__0",
    "openinference__test_instrumentor.test_completion_streaming_with_extended_thinking_anthropic__0",
  ],
  gemini: [
    "ruby_llm__vcr_cassettes.chat_streaming_responses_gemini_gemini-2_5-flash_reports_consistent_token_counts_compared_to_non__0",
    "mirascope__test_call_with_thinking_no_include_thoughts.google_gemini_2_5_flash.stream__0",
    "openinference__test_instrumentation.test_streaming_content_with_tool__0",
    "mirascope__test_validation_retry.google_gemini_2_5_flash.stream__0",
    "mirascope__cassettes.test_strict_mode_streamed.google_gemini_3_pro_preview__0",
  ],
};

/** How a provider's answer ends behind its last byte. */
const ENDS = {
  FIN: (socket: Socket) => socket.end(),
  RST: (socket: Socket) => socket.resetAndDestroy(),
  /** HTTP says that the answer is whole. */
  "a proper end": (socket: Socket) => socket.end("0\r\n\r\n"),
};
type End = keyof typeof ENDS;
type Route = (typeof WAYS)[number];

interface Stream {
  protocol: ProtocolName;
  recording: Recording;
  /** Bytes up to the end of the event that makes it complete: with one less it is cut. */
  length: number;
  /** The same without the event's line ends, which a proper end of the answer stands for. */
  bare: number;
}

/** What a lane's provider sends at the moment. */
interface Sending {
  bytes: Buffer;
  end: End;
}

const HEAD = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

/** Where the event ends that completes a stream. */
function completed(protocol: ProtocolName, body: Buffer): number {
  const splitter = new SseSplitter();
  const frames = splitter.push(body);
  const rest = splitter.end();
  if (rest) frames.push(new Frame("event", rest));
  let length = 0;
  for (const frame of frames) {
    length += frame.bytes.length;
    if (SPOKEN[protocol].ending(frame) === "complete") return length;
  }
  throw new Error("The recording is not complete.");
}

function streams(): Stream[] | undefined {
  const names = Object.values(STREAMS).flat();
  // Also where only a sample of other lists is tried.
  const all = recordings((entries) => entries.filter(({ id }) => names.some((name) => id.endsWith(`/${name}`))));
  return (
    all &&
    PROTOCOLS.flatMap((protocol) =>
      STREAMS[protocol].map((name) => {
        const recording = all.find(({ id, protocol: its }) => its === protocol && id.endsWith(`/${name}`));
        if (!recording) throw new Error(`${name} is not among the recordings.`);
        const length = completed(protocol, recording.body);
        const bare = recording.body.toString("latin1", 0, length).trimEnd().length;
        return { protocol, recording, length, bare };
      }),
    )
  );
}

const PROMPT = "Say something.";
/** What the SDKs ask. */
const QUESTIONS: Record<ProtocolName, (model: string) => [path: string, body: object]> = {
  "openai-chat": (model) => [
    "/v1/chat/completions",
    { model, messages: [{ role: "user", content: PROMPT }], stream: true, stream_options: { include_usage: true } },
  ],
  "openai-responses": (model) => ["/v1/responses", { model, input: PROMPT, stream: true }],
  "anthropic-messages": (model) => [
    "/v1/messages",
    { model, max_tokens: 1024, messages: [{ role: "user", content: PROMPT }], stream: true },
  ],
  gemini: (model) => [
    `/v1beta/models/${model}:streamGenerateContent?alt=sse`,
    {
      contents: [{ role: "user", parts: [{ text: PROMPT }] }],
      generationConfig: { thinkingConfig: { includeThoughts: true } },
    },
  ],
};

const beforeDeadline = <Result>(what: string, act: Promise<Result>): Promise<Result> => {
  const { promise, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error(`hangs: ${what}`)), DEADLINE);
  return Promise.race([act, promise]).finally(() => clearTimeout(timer));
};

/** Everything that a client gets on its connection until that is closed. */
function answerOf(port: number, client: ProtocolName, model: string): Promise<Buffer> {
  const [path, question] = QUESTIONS[client](model);
  const body = JSON.stringify(question);
  const head = `POST ${path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${KEY}\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: ${body.length}\r\n\r\n`;
  return new Promise((resolve) => {
    const pieces: Buffer[] = [];
    const socket = connect(port, "127.0.0.1", () => socket.write(head + body));
    socket
      .on("data", (piece: Buffer) => pieces.push(piece))
      .on("error", () => {})
      .on("close", () => resolve(Buffer.concat(pieces)));
  });
}

/** What differs between two answers that say the same: ids and times of the gateway's, and where chunks are cut. */
function outcomeOf(client: ProtocolName, answer: Buffer): string {
  const text = answer.toString("latin1");
  const end = text.indexOf("\r\n\r\n");
  const whole = /\r\n0\r\n\r\n$/.test(text) || /\r\ncontent-length: /.test(text.slice(0, end));
  const body = text
    .slice(end)
    .replaceAll(/\r\n[0-9a-f]+\r\n/g, "")
    .replaceAll(/[0-9a-f]{8}-?[0-9a-f]{4}-?7[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}/g, "ID")
    .replaceAll(/"created(?:_at)?":\d+/g, "");
  return `${client} ${text.slice(0, 12)} ${whole} ${createHash("sha256").update(body).digest("base64")}`;
}

/** A gateway before providers that end as they are told, each by its lane's number. */
class Cutter {
  readonly faults: string[] = [];
  cuts = 0;
  /** Requests that reached the providers. */
  asked = 0;
  private readonly sending: (Sending | undefined)[] = [];
  /** What the SDK of the client made of an outcome: the error that it raised, or undefined for an answer. */
  private readonly verdicts = new Map<string, Promise<string | undefined>>();
  private port = 0;

  /** Undefined where there is no such route. */
  static async start(t: Test, route: Route): Promise<Cutter | undefined> {
    const cutter = new Cutter();
    const providers: string[] = [];
    const models: string[] = [];
    for (let lane = 0; lane < LANES; lane++) {
      const upstream = await rawUpstream(async (socket, { body }) => {
        await body;
        const { bytes, end } = cutter.sending[lane] as Sending;
        cutter.asked++;
        const chunk = bytes.length === 0 ? "" : `${bytes.length.toString(16)}\r\n${bytes.toString("latin1")}\r\n`;
        socket.write(HEAD + chunk, "latin1", () => ENDS[end](socket));
      });
      t.teardown(() => upstream.close());
      for (const protocol of PROTOCOLS) {
        providers.push(`  ${protocol}-${lane}: { url: "${upstream.origin.origin}/v1", speaks: [${protocol}] }`);
        models.push(`  ${protocol}-${lane}: { targets: ["${protocol}-${lane}:any"] }`);
      }
    }
    const yaml = `providers:\n${providers.join("\n")}\nmodels:\n${models.join("\n")}\n`;
    const { port, log } = await startGateway(t, yaml);
    log.debug = log.info = log.warn = () => {};
    cutter.port = (await entrance(t, route, port)) ?? 0;
    return cutter.port === 0 ? undefined : cutter;
  }

  /** A stream's first bytes, ended in this way, must be an error to the client's SDK, or where it is whole an answer. */
  async judge(stream: Stream, client: ProtocolName, end: End, bytes: number, lane: number): Promise<void> {
    const { protocol, recording, length } = stream;
    const whole = end === "a proper end" ? stream.bare : length;
    const model = `${protocol}-${lane}`;
    const what = `${recording.id} to ${client}, ${end} behind ${bytes} of ${length} bytes`;
    this.sending[lane] = { bytes: recording.body.subarray(0, bytes), end };
    this.cuts++;
    try {
      const outcome = outcomeOf(client, await beforeDeadline(what, answerOf(this.port, client, model)));
      let verdict = this.verdicts.get(outcome);
      if (!verdict) {
        const asked = beforeDeadline(what, ASK[client]({ url: `http://127.0.0.1:${this.port}`, model, stream: true }));
        verdict = asked.then(
          () => undefined,
          (error: Error) => String(error.message || error.name),
        );
        // Others of the same outcome wait for this one; the provider goes on sending the same until then.
        this.verdicts.set(outcome, verdict);
      }
      const error = await verdict;
      if (error?.startsWith("hangs")) this.faults.push(error);
      else if (bytes < whole && error === undefined) this.faults.push(`no error: ${what}`);
      else if (bytes >= whole && error !== undefined) this.faults.push(`${error}: ${what}`);
    } catch (error) {
      this.faults.push(String(error));
    }
  }

  get judged(): number {
    return this.verdicts.size;
  }
}

const found = streams();

for (const route of WAYS)
  t.test(
    `an interrupted stream is an error in the vendors' own SDKs, wherever and however, and a complete one is an answer, ${route}`,
    { skip: !found && "recordings are absent", timeout: 36_000_000 },
    async (t) => {
      const cutter = await Cutter.start(t, route);
      if (!cutter) return;
      const stride = STRIDE[route];
      const jobs: (readonly [Stream, ProtocolName, End, number])[] = [];
      for (const stream of found ?? [])
        for (const client of PROTOCOLS) {
          const whole = stream.recording.body.length;
          for (const end of Object.keys(ENDS) as End[]) {
            const last = (end === "a proper end" ? stream.bare : stream.length) - 1;
            for (let bytes = 0; bytes < last; bytes += stride) jobs.push([stream, client, end, bytes]);
            jobs.push([stream, client, end, last]);
          }
          jobs.push([stream, client, "a proper end", whole]);
          // Behind its terminal event, which Gemini alone has not, it is whole, however the connection ends.
          if (stream.protocol !== "gemini") jobs.push([stream, client, "FIN", whole]);
        }
      t.comment(`${jobs.length} cuts`);
      let next = 0;
      const lane = async (number: number) => {
        for (let job = jobs[next++]; job; job = jobs[next++]) {
          const [stream, client, end, bytes] = job;
          await cutter.judge(stream, client, end, bytes, number);
          if (ASKED && cutter.cuts % 10_000 === 0)
            t.comment(`${cutter.cuts} of ${jobs.length}, ${cutter.judged} outcomes, ${cutter.faults.length} faults`);
        }
      };
      await Promise.all(Array.from({ length: LANES }, (_, number) => lane(number)));
      t.equal(cutter.cuts, jobs.length);
      t.ok(cutter.asked >= jobs.length, "each interruption came from a provider");
      t.ok(cutter.judged > 80, `${cutter.judged} different outcomes were given to the SDKs`);
      t.same(cutter.faults.slice(0, 50), [], `${cutter.faults.length} faults`);
    },
  );
