/** Every recorded answer, given as an upstream's to clients of the other protocols, judged by the clients' own SDKs. */
import { createServer } from "node:http";
import { pathToFileURL } from "node:url";
import { type Digest, digest } from "../support/digest.ts";
import { startGateway } from "../support/gateway.ts";
import { listen, type Teardown } from "../support/listen.ts";
import { each } from "../support/raw.ts";
import { type Recording, recordings } from "../support/recordings.ts";
import { shared } from "../support/shared.ts";
import { ASK, PROTOCOLS, type ProtocolName } from "../support/vendor-sdks.ts";
import { usageOf } from "./usage-of.ts";

/** How one recording fared with one client. */
export interface Verdict {
  recording: string;
  source: ProtocolName;
  client: ProtocolName;
  stream: boolean;
  /** Nothing: all is equal. */
  fault?: string;
}

/** A recorded answer and what its own vendor's SDK makes of it. */
export interface Origin {
  recording: Recording;
  digest?: Digest;
  /** Why the vendor's own SDK refuses it. */
  broken?: string;
}

type Accepts = (body: object) => Promise<unknown>;

/** Requests at a time. */
const AT_ONCE = 8;

/** The recorded 2xx answers of conversations, with their digests; undefined where the recordings are absent. */
export async function origins(): Promise<Origin[] | undefined> {
  const oracle = shared("recordings/sdk-oracle.mjs");
  const all = recordings();
  if (!oracle || !all) return undefined;
  const { accepts } = (await import(pathToFileURL(oracle).href)) as { accepts: Accepts };
  const out: Origin[] = [];
  for (const each of all) {
    const spoken = PROTOCOLS.some((name) => name === each.protocol);
    if (!spoken || each.status >= 300 || !isAnswer(each)) continue;
    const recording = asEvents(each);
    const { protocol, streaming: stream, contentType, body } = recording;
    try {
      const answer = await accepts({ protocol, stream, contentType, body });
      out.push({ recording, digest: digest(protocol, answer) });
    } catch (error) {
      out.push({ recording, broken: String((error as Error).message).slice(0, 120) });
    }
  }
  return out;
}

/** Counts of tokens and compactions are filed among the answers, and are none. */
const isAnswer = ({ path, body }: Recording): boolean =>
  !/count|embed/i.test(path) &&
  !/"object": ?"response\.(?:input_tokens|compaction)"/.test(body.toString("utf8", 0, 2000));

/** A stream recorded as one JSON array, in the form the gateway asks for. */
export function asEvents(recording: Recording): Recording {
  if (!recording.kinds.includes("json_array_stream")) return recording;
  const elements = JSON.parse(recording.body.toString()) as unknown[];
  const body = Buffer.from(elements.map((each) => `data: ${JSON.stringify(each)}\n\n`).join(""));
  return { ...recording, body, contentType: "text/event-stream", streaming: true };
}

/** A gateway before an upstream that answers with the recording a header names. */
async function between(t: Teardown, found: readonly Origin[]): Promise<string> {
  const upstream = createServer((incoming, response) => {
    incoming.resume();
    const { recording } = found[Number(incoming.headers["x-recording"])] as Origin;
    response.writeHead(recording.status, { "content-type": recording.contentType }).end(recording.body);
  });
  const address = `http://127.0.0.1:${await listen(t, upstream)}/v1`;
  const providers = PROTOCOLS.map(
    (name) => `  ${name}: { url: "${address}", speaks: [${name}], forward: [x-recording] }`,
  );
  const models = PROTOCOLS.map((name) => `  of-${name}: { targets: [${name}:any] }`);
  const { url } = await startGateway(t, `providers:\n${providers.join("\n")}\nmodels:\n${models.join("\n")}\n`);
  return url;
}

/** What differs between what the vendor said and what the client got; undefined: nothing. */
export function difference(source: Digest, got: Digest, from: string, to: string): string | undefined {
  const differs = (what: string, was: unknown, is: unknown): string | undefined =>
    JSON.stringify(was) === JSON.stringify(is)
      ? undefined
      : `${what}: ${JSON.stringify(is)?.slice(0, 150)} instead of ${JSON.stringify(was)?.slice(0, 150)}`;
  const calls = ({ calls }: Digest) => calls.map(({ name, args }) => [name, args]);
  const unpaired =
    new Set(got.calls.map(({ id }) => id)).size !== got.calls.length ||
    got.calls.some(({ id }) => !id || id === "undefined");
  // Chat cannot say whether text came before or behind a call.
  const ordered = from !== "openai-chat" && to !== "openai-chat";
  return (
    differs("text", source.text, got.text) ??
    differs("calls", calls(source), calls(got)) ??
    differs("arguments", ...texts(source, got)) ??
    (unpaired && to !== "gemini" ? "calls without ids of their own" : undefined) ??
    (ordered ? differs("order", source.order, got.order) : undefined) ??
    differs("finish", source.finish, got.finish) ??
    differs("usage", ...usages(usageOf(from, source.usage), usageOf(to, got.usage), to))
  );
}

/** The text of arguments, where both sides have them as a text; no arguments are an empty object. */
function texts(source: Digest, got: Digest): [string[], string[]] {
  const both = source.texts.map((text, i) => text !== undefined && got.texts[i] !== undefined);
  const told = ({ texts }: Digest) => texts.filter((_, i) => both[i]).map((text) => text || "{}");
  return [told(source), told(got)];
}

/** The counts that the source told and the client's protocol has a word for. */
function usages(source: Counts, got: Counts, to: string): [Counts, Counts] {
  // Gemini has no word for tokens written to a cache.
  const names = Object.keys(source).filter((name) => to !== "gemini" || name !== "write");
  const told = (counts: Counts) => Object.fromEntries(names.map((name) => [name, counts[name] ?? 0]));
  return [told(source), told(got)];
}

type Counts = ReturnType<typeof usageOf>;

/** Asks for every recording with every other protocol's SDK, whole and streamed, some at a time. */
export async function matrix(t: Teardown, found: readonly Origin[]): Promise<Verdict[]> {
  const url = await between(t, found);
  const asked = found.flatMap((origin, index) =>
    PROTOCOLS.filter((client) => client !== origin.recording.protocol).flatMap((client) =>
      [false, true].map((stream) => ({ origin, index, client, stream })),
    ),
  );
  const ask = async ({ origin, index, client, stream }: (typeof asked)[number]): Promise<Verdict> => {
    const source = origin.recording.protocol as ProtocolName;
    const verdict: Verdict = { recording: origin.recording.id, source, client, stream };
    try {
      const headers = { "x-recording": String(index) };
      const answer = await ASK[client]({ url, model: `of-${source}`, stream, headers });
      const fault = origin.digest && difference(origin.digest, digest(client, answer), source, client);
      if (fault) verdict.fault = fault;
    } catch (error) {
      verdict.fault = `refused: ${String((error as Error).message).slice(0, 200)}`;
    }
    return verdict;
  };
  return each(asked, ask, AT_ONCE);
}
