/** Answers of providers of every protocol with random changes, of HTTP and of what it carries: each client gets an answer, or an error. */
import { readdirSync } from "node:fs";
import { Agent, type IncomingMessage, request } from "node:http";
import type { Socket } from "node:net";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as after } from "node:timers/promises";
import t from "tap";
import completions from "../../plugins/protocols/openai-completions/index.ts";
import embeddings from "../../plugins/protocols/openai-embeddings/index.ts";
import images from "../../plugins/protocols/openai-images/index.ts";
import type { Protocol } from "../../src/core/protocol.ts";
import { runAtOnce } from "../../src/translation/steps.ts";
import { ArraySplitter } from "../../src/wire/array.ts";
import { Frame } from "../../src/wire/frame.ts";
import { SseSplitter } from "../../src/wire/sse.ts";
import { dice } from "../support/dice.ts";
import { asking, startGateway } from "../support/gateway.ts";
import { HARMLESS, type Intact, mutated } from "../support/mutations.ts";
import { randomAnswer } from "../support/random-answers.ts";
import { contextFor, SPOKEN, sse, streamed, translationOf } from "../support/translations.ts";
import { until } from "../support/until.ts";
import { rawUpstream } from "../support/upstream.ts";
import { PROTOCOLS, type ProtocolName } from "../support/vendor-sdks.ts";

const REQUESTS = Number(process.env["GATEWAY_TEST_MUTATED"] ?? 2000);
/** The first request's number: each request is what its number says. */
const FIRST = Number(process.env["GATEWAY_TEST_MUTATED_FIRST"] ?? 0);
/** Requests at a time, and those after which all rows are compared with what clients got. */
const [LANES, BATCH] = [24, 10_000];
/** Requests before which nothing is counted that stays open. */
const FILLING = 300;
/** Milliseconds after which a client that still waits is one that hangs. */
const DEADLINE = 30_000;
/** Different answers of each protocol. */
const ANSWERS = 64;

/** What stands in an answer in the place of its request's mark, which is as long. */
const MARK = "tag-0000000";
const JSON_TYPE = "application/json";
const SSE_TYPE = "text/event-stream";

interface Spoken {
  protocol: Protocol;
  /** Whether clients of the four protocols that translate reach it. */
  translated: boolean;
  answers: { whole: Intact; streamed: Intact }[];
}

const whole = (json: unknown): Intact => ({
  body: Buffer.from(typeof json === "string" ? json : JSON.stringify(json)),
  ...{ streamed: false, contentType: JSON_TYPE },
});
const events = (text: string): Intact => ({ body: Buffer.from(text), streamed: true, contentType: SSE_TYPE });

function answersOf(protocol: ProtocolName): Spoken["answers"] {
  return Array.from({ length: ANSWERS }, (_, seed) => {
    const [start, ...others] = randomAnswer(seed + 1);
    const said = [
      ...[start, { type: "open", block: 99, choice: 0, kind: "text" }, { type: "text", block: 99, text: MARK }],
      ...[{ type: "close", block: 99 }, ...others],
    ] as ReturnType<typeof randomAnswer>;
    return {
      whole: whole(runAtOnce(translationOf(protocol).response.encode(said, contextFor(protocol)))),
      streamed: events(sse(streamed(protocol, said))),
    };
  });
}

/** The events of a stream as one array. */
function inArray({ body, ...rest }: Intact): Intact {
  const elements = body.toString().match(/(?<=^data: )[^\n]*/gm) ?? [];
  return { ...rest, body: Buffer.from(`[${elements.join(",\r\n")}]`), contentType: JSON_TYPE };
}

const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 };
const completion = (text: string, finish_reason: string | null) => ({
  ...{ id: "cmpl-1", object: "text_completion", created: 1, model: "x" },
  choices: [{ text, index: 0, logprobs: null, finish_reason }],
});
const embedding = { object: "embedding", index: 0, embedding: [0.25, -0.5, 1] };
const VENDORS: Record<string, Spoken> = {
  ...Object.fromEntries(
    PROTOCOLS.map((name) => [name, { protocol: SPOKEN[name], translated: true, answers: answersOf(name) }]),
  ),
  "openai-completions": {
    ...{ protocol: completions, translated: false },
    answers: [
      {
        whole: whole({ ...completion(MARK, "stop"), usage }),
        streamed: events(
          [completion("Hello ", null), completion(MARK, "stop"), { ...completion("", null), choices: [], usage }]
            .map((each) => `data: ${JSON.stringify(each)}\n\n`)
            .join("")
            .concat("data: [DONE]\n\n"),
        ),
      },
    ],
  },
  "openai-embeddings": {
    ...{ protocol: embeddings, translated: false },
    answers: [
      whole({ object: "list", data: [embedding], model: MARK, usage: { prompt_tokens: 3, total_tokens: 3 } }),
    ].map((answer) => ({ whole: answer, streamed: answer })),
  },
  "openai-images": {
    ...{ protocol: images, translated: false },
    answers: [
      whole({ created: 1, data: [{ b64_json: "aGk=", revised_prompt: MARK }], usage: { total_tokens: 9 } }),
    ].map((answer) => ({ whole: answer, streamed: answer })),
  },
};
const CONVERSING = Object.keys(VENDORS).filter((name) => VENDORS[name]?.translated);

/** How a client asks. */
const ASKS: Record<string, (model: string, text: string, stream: boolean) => [path: string, body: object]> = {
  "openai-chat": (model, content, stream) => [
    "/v1/chat/completions",
    {
      model,
      messages: [{ role: "user", content }],
      stream,
      ...(stream && { stream_options: { include_usage: true } }),
    },
  ],
  "openai-responses": (model, input, stream) => ["/v1/responses", { model, input, stream }],
  "anthropic-messages": (model, content, stream) => [
    "/v1/messages",
    { model, max_tokens: 1024, messages: [{ role: "user", content }], stream },
  ],
  gemini: (model, text, stream) => [
    `/v1beta/models/${model}:${stream ? "streamGenerateContent?alt=sse" : "generateContent"}`,
    { contents: [{ role: "user", parts: [{ text }] }] },
  ],
  "gemini in an array": (model, text) => [
    `/v1beta/models/${model}:streamGenerateContent`,
    { contents: [{ role: "user", parts: [{ text }] }] },
  ],
  "openai-completions": (model, prompt, stream) => ["/v1/completions", { model, prompt, max_tokens: 9, stream }],
  "openai-embeddings": (model, input) => ["/v1/embeddings", { model, input }],
  "openai-images": (model, prompt) => ["/v1/images/generations", { model, prompt }],
};
const CLIENTS = Object.keys(ASKS);

/** All that a request's number decides. */
function planOf(number: number) {
  const cast = dice(number);
  const client = CLIENTS[cast(CLIENTS.length)] as string;
  const spoken = client.replace(" in an array", "");
  // Half of those that may be translated are.
  const own = spoken === "openai-completions" ? cast(2) === 0 : !CONVERSING.includes(spoken) || cast(2) === 0;
  const vendor = own ? spoken : (CONVERSING[cast(CONVERSING.length)] as string);
  const stream = client !== spoken || cast(3) > 0;
  return { cast, client, spoken, vendor, stream, mark: `tag-${String(number).padStart(7, "0")}` };
}

/** What the provider sends for a request's number. */
function sentFor(number: number) {
  const { cast, client, spoken, vendor, stream, mark } = planOf(number);
  // An array is asked for, and some send events all the same.
  const asArray = client !== spoken && vendor === spoken && cast(4) > 0;
  const of = (name: string): Intact => {
    const { answers } = VENDORS[name] as Spoken;
    const answer = answers[cast(answers.length)] as Spoken["answers"][number];
    const intact = !stream ? answer.whole : asArray && name === vendor ? inArray(answer.streamed) : answer.streamed;
    const body = Buffer.from(intact.body);
    for (let at = body.indexOf(MARK); at >= 0; at = body.indexOf(MARK, at)) at += body.write(mark, at);
    return { ...intact, body };
  };
  const intact = of(vendor);
  const names = Object.keys(VENDORS);
  return { intact, sent: mutated(intact, of(names[cast(names.length)] as string), cast), cast };
}

interface Seen {
  id: string;
  status: number;
  type: string;
  text: Buffer;
  /** Whether it ended as its framing says. */
  clean: boolean;
}

const agent = new Agent({ keepAlive: true });

function ask(port: number, number: number): Promise<Seen> {
  const { client, vendor, stream, mark } = planOf(number);
  const [path, body] = (ASKS[client] as (typeof ASKS)[string])(vendor, mark, stream);
  const { promise, resolve, reject } = Promise.withResolvers<Seen>();
  const options = { port, host: "127.0.0.1", method: "POST", path, headers: asking(), agent };
  const asked = request(options, (answer: IncomingMessage) => {
    const pieces: Buffer[] = [];
    answer.on("data", (piece: Buffer) => pieces.push(piece)).on("error", () => {});
    answer.on("close", () =>
      resolve({
        ...{ id: String(answer.headers["x-request-id"]), status: answer.statusCode ?? 0 },
        ...{ type: answer.headers["content-type"] ?? "", text: Buffer.concat(pieces), clean: answer.complete },
      }),
    );
  });
  asked.setTimeout(DEADLINE, () => asked.destroy(new Error("it hangs")));
  asked.on("error", reject).end(JSON.stringify(body));
  return promise;
}

type Verdict = "complete" | "error" | "silent" | "no JSON";

/** The end of a stream, as its client reads it. */
function endOf(protocol: Protocol, frames: readonly Frame[]): Verdict {
  const ends = frames.map((frame) => protocol.ending(frame));
  if (ends.includes("error")) return "error";
  return ends.includes("complete") ? "complete" : "silent";
}

function framesOf(splitter: SseSplitter | ArraySplitter, body: Buffer): Frame[] {
  const frames = splitter.push(body);
  const rest = splitter.end();
  return rest ? [...frames, new Frame("event", rest)] : frames;
}

/** What a client makes of what it got. */
function verdictOf(number: number, { status, type, text, clean }: Seen): Verdict {
  const { client, spoken } = planOf(number);
  if (!clean || status >= 300) return "error";
  const { protocol } = VENDORS[spoken] as Spoken;
  if (type.startsWith(SSE_TYPE)) return endOf(protocol, framesOf(new SseSplitter(), text));
  try {
    const json: unknown = JSON.parse(text.toString());
    if (client === spoken || !Array.isArray(json)) return "complete";
    return endOf(protocol, framesOf(new ArraySplitter(), text));
  } catch {
    return "no JSON";
  }
}

/** Where the event ends that completes a stream, or its line; undefined: no event does. */
function completedAt({ protocol }: Spoken, body: Buffer): number | undefined {
  let length = 0;
  for (const frame of framesOf(new SseSplitter(), body)) {
    if (protocol.ending(frame) === "complete") return length + frame.bytes.toString("latin1").trimEnd().length;
    length += frame.bytes.length;
  }
  return undefined;
}

/** Whether a change has made the mark what it is. */
function isOwn(number: number, mark: string): boolean {
  const { body, bytes, mutation } = sentFor(number).sent;
  return (body ?? bytes).includes(mark) || mutation === "gzip with a wrong byte";
}

/** What is wrong with what a client got; undefined: nothing. */
function faultOf(number: number, seen: Seen, verdict: Verdict): string | undefined {
  const { spoken, vendor, mark } = planOf(number);
  for (const [other] of seen.text.toString("latin1").matchAll(/tag-\d{7}/g))
    if (other !== mark && !isOwn(number, other)) return `it has ${other}`;
  const { intact, sent } = sentFor(number);
  // A kept connection may end just when it is used again.
  if (HARMLESS.has(sent.mutation) && seen.status !== 502 && (verdict !== "complete" || !seen.text.includes(mark)))
    return "it lacks something";
  if (verdict === "silent") return "it ends without an end";
  if (verdict === "no JSON") return spoken === vendor ? undefined : "it is no JSON";
  if (verdict === "error") return undefined;
  if (sent.brokenAt === undefined) return undefined;
  if (!intact.streamed) return "it is complete, and was cut";
  // Gemini has no event that ends a stream for certain.
  const needed = vendor === "gemini" ? undefined : completedAt(VENDORS[vendor] as Spoken, intact.body);
  return sent.brokenAt >= (needed ?? Number.POSITIVE_INFINITY)
    ? undefined
    : `it is complete, and was cut before ${needed}`;
}

/** Sends an answer in one to four pieces, and ends the connection. */
function send(socket: Socket, number: number): void {
  const { sent, cast } = sentFor(number);
  const { bytes, end } = sent;
  const cuts = Array.from({ length: cast(4) }, () => cast(bytes.length + 1)).sort((one, two) => one - two);
  const pieces = [0, ...cuts].map((from, i) => bytes.subarray(from, cuts[i]));
  const next = (): void => {
    const piece = pieces.shift();
    if (socket.destroyed) return;
    if (piece) {
      socket.write(piece);
      setImmediate(next);
    } else if (end === "FIN") socket.end();
    else if (end === "RST") setImmediate(() => socket.resetAndDestroy());
  };
  next();
}

/** Looks at what is open, and milliseconds between them. */
const LOOKS = 10;
const LOOK_INTERVAL = 20;

/** Sockets that this process holds, and its file descriptors where the system tells. */
function holdings() {
  const sockets = process.getActiveResourcesInfo().filter((name) => name === "TCPSocketWrap").length;
  let files = 0;
  try {
    files = readdirSync("/proc/self/fd").length;
  } catch {
    // Another system.
  }
  return { sockets, files };
}

t.test(
  "changed answers of providers: no crash, no silent end, no socket kept, and one row for each exchange, of its end",
  { timeout: 36_000_000 },
  async (t) => {
    let asked = 0;
    const upstream = await rawUpstream(async (socket, request) => {
      const mark = /tag-(\d{7})/.exec((await request.body).toString())?.[1];
      asked++;
      if (!socket.destroyed) send(socket, Number(mark));
    });
    t.teardown(() => upstream.close());
    const names = Object.keys(VENDORS);
    const { origin } = upstream.origin;
    const { port, log, folder, gateway } = await startGateway(
      t,
      `retry: { attempts: 0 }
health: { failures: 1000000, errors: "off" }
providers:
${names.map((name) => `  ${name}: { url: "${origin}/v1", speaks: [${name}] }`).join("\n")}
models:
${names.map((name) => `  ${name}: { targets: ["${name}:any"] }`).join("\n")}
`,
    );
    log.debug = log.info = log.warn = () => {};
    let before = holdings();
    const faults: string[] = [];
    const counts: Record<string, number> = {};
    const note = (number: number, fault: string, seen?: Seen) => {
      const { client, vendor, stream } = planOf(number);
      const { mutation } = sentFor(number).sent;
      const got = seen ? `${seen.status} ${seen.clean} ${seen.text.toString("latin1").slice(-600)}` : "";
      faults.push(`${number}: ${mutation}, ${vendor} to ${client}${stream ? ", streamed" : ""}: ${fault}: ${got}`);
    };
    let verdicts = new Map<string, { number: number; verdict: Verdict }>();
    const one = async (number: number) => {
      try {
        const seen = await ask(port, number);
        const verdict = verdictOf(number, seen);
        counts[verdict] = (counts[verdict] ?? 0) + 1;
        verdicts.set(seen.id, { number, verdict });
        const fault = faultOf(number, seen, verdict);
        if (fault !== undefined) note(number, fault, seen);
      } catch (error) {
        note(number, String(error));
      }
    };
    const database = () => new DatabaseSync(join(folder, "gateway.db"), { readOnly: true, timeout: 5000 });
    let lastRow = 0;
    let rows = 0;
    /** Compares the rows of a batch with what clients got. */
    const compare = async (sent: number) => {
      await until(() => gateway.exchanges.length === 0, "the end of all");
      const reader = database();
      const total = () => Number(reader.prepare("select count(*) as count from usage").get()?.["count"]);
      await until(() => total() >= sent, "all rows").catch(() => {});
      const found = reader
        .prepare(
          "select usage.rowid as row, id, outcome from usage join usage_kind on number = kind where usage.rowid > ?",
        )
        .all(lastRow) as { row: number; id: string; outcome: string }[];
      reader.close();
      rows += found.length;
      for (const { row, id, outcome } of found) {
        lastRow = Math.max(lastRow, row);
        const known = verdicts.get(id);
        if (!known) faults.push(`${id} has a row, and was not answered`);
        else if (outcome === "failed") note(known.number, "its row says that the gateway has failed");
        else if (known.verdict !== "no JSON" && (outcome === "completed") !== (known.verdict === "complete"))
          note(known.number, `its client sees ${known.verdict}, its row says ${outcome}`);
        verdicts.delete(id);
      }
      for (const { number } of verdicts.values()) note(number, "it has no row");
      verdicts = new Map();
    };
    const rest = async (most: number) => {
      agent.destroy();
      upstream.cut();
      await until(() => holdings().sockets <= most, "sockets to be closed").catch(() => {});
      const found = holdings();
      // One that the ledger's thread opens for a moment, or that is being closed, is not kept.
      for (let look = 0; look < LOOKS; look++) {
        await after(LOOK_INTERVAL);
        found.files = Math.min(found.files, holdings().files);
      }
      return found;
    };
    for (let at = 0; at < REQUESTS; ) {
      const end = Math.min(REQUESTS, at === 0 ? FILLING : at + BATCH);
      let next = at;
      const lane = async () => {
        while (next < end) await one(FIRST + next++);
      };
      await Promise.all(Array.from({ length: LANES }, lane));
      await compare(end);
      // From here on files that are opened once, like the journal, are open.
      if (at === 0) before = await rest(before.sockets);
      at = end;
      if (REQUESTS > BATCH)
        t.comment(`${end}: ${faults.length} faults, ${JSON.stringify(counts)}, ${JSON.stringify(holdings())}`);
      if (faults.length > 100) break;
    }
    t.same(faults.slice(0, 20), [], `${faults.length} faults`);
    t.equal(rows, REQUESTS, "one row each");
    t.ok(asked >= REQUESTS, `${asked} requests came to the provider`);
    t.ok((counts["complete"] ?? 0) > REQUESTS / 5 && (counts["error"] ?? 0) > REQUESTS / 5, JSON.stringify(counts));
    t.same(await rest(before.sockets), before, "no socket and no file is kept");
    t.comment(`${REQUESTS} requests: ${JSON.stringify(counts)}`);
  },
);
