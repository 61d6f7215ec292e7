/** Every recorded request, written for the vendors of the other protocols and judged by their rules. */

import { GatewayError } from "../../src/core/errors.ts";
import { type Facts } from "../../src/core/marketplace.ts";
import type { Operation } from "../../src/core/protocol.ts";
import { type TranslatedProtocol } from "../../src/translation/codec.ts";
import type { Conversation } from "../../src/translation/conversation.ts";
import { Envelopes } from "../../src/translation/envelope.ts";
import { readRequest, type WrittenRequest, writeRequest } from "../../src/translation/request.ts";
import { HeaderList } from "../../src/wire/headers.ts";
import { Query } from "../../src/wire/query.ts";
import { type RecordingEntry, recordingEntries, storedExchange } from "../support/recorded.ts";
import { sample } from "../support/sample.ts";
import { SPOKEN } from "../support/translations.ts";
import { faultsOf, newestFaultsOf, plainChatFaultsOf, plainResponsesFaultsOf } from "../support/vendor-rules.ts";
import { PROTOCOLS, type ProtocolName } from "../support/vendor-sdks.ts";
import { excuse } from "./refused-requests.ts";
import { undeclared, unplaced } from "./request-losses.ts";

/** A request that a vendor's client once sent, and that the vendor answered. */
export interface RecordedRequest {
  id: string;
  protocol: ProtocolName;
  operation: Operation;
  /** The body as JSON text. */
  text: string;
}

/** How one request fared on its way to one vendor. */
export interface Verdict {
  recording: string;
  source: ProtocolName;
  target: ProtocolName;
  /** Whether the target is one of the vendor's newest models, of which gateway.yaml tells facts. */
  newest: boolean;
  /** Why it was refused, with the client's field. */
  refused?: { field: string; message: string };
  /** Everything that is wrong with what was sent, or with how it was refused. */
  faults: string[];
}

const FOLDERS: Readonly<Record<string, ProtocolName>> = {
  "openai-chat": "openai-chat",
  "openai-responses": "openai-responses",
  anthropic: "anthropic-messages",
  "anthropic-count-tokens": "anthropic-messages",
  gemini: "gemini",
  "gemini-count-tokens": "gemini",
};

/** The recorded requests for conversations, however they were answered; undefined where the recordings are absent. */
export function requests(): RecordedRequest[] | undefined {
  const entries = recordingEntries();
  return entries.length > 0 ? sample(entries).flatMap(requestOf) : undefined;
}

function requestOf(entry: RecordingEntry): RecordedRequest[] {
  const { id, protocol: directory, has_request } = entry;
  const protocol = FOLDERS[directory];
  if (!protocol || !has_request) return [];
  const { request } = storedExchange(entry);
  const operation = operationOf(protocol, request?.path ?? "");
  // Nothing but the model's own operations is translated, and not what compacts a conversation.
  return request?.body && operation?.task ? [{ id, protocol, operation, text: JSON.stringify(request.body) }] : [];
}

/** Vendors and other gateways mount a protocol wherever they like; how its paths end tells what is asked. */
function operationOf(protocol: ProtocolName, path: string): Operation | undefined {
  const [bare = "", search = ""] = path.split("?");
  const spoken = SPOKEN[protocol];
  const query = new Query(search);
  if (protocol === "gemini")
    return spoken.locate("/v1beta/models/*", `any:${bare.split(":").at(-1)}`, query)?.operation;
  const ends = spoken.paths.map((each) => each.replace(/^\/v1/, "")).filter((each) => bare.endsWith(each));
  const [longest] = ends.toSorted((a, b) => b.length - a.length);
  return longest === undefined ? undefined : spoken.locate(`/v1${longest}`, "", query)?.operation;
}

/** Facts about the newest models of each vendor, as gateway.yaml tells them. */
const NEWEST: Readonly<Record<ProtocolName, Facts>> = {
  "openai-chat": { sampling: false, prefill: false },
  "openai-responses": { sampling: false, prefill: false, output: 128_000 },
  "anthropic-messages": {
    sampling: false,
    thinking: "adaptive",
    output: 64_000,
    system_in_place: true,
    prefill: false,
  },
  gemini: { thinking: "level", output: 65_536, prefill: false },
};

/** A name of one of them: what only the vendor's own models take depends on it. */
const NEWEST_MODEL: Readonly<Record<ProtocolName, string>> = {
  "openai-chat": "gpt-6",
  "openai-responses": "gpt-6",
  "anthropic-messages": "claude-opus-5",
  gemini: "gemini-3.8-pro",
};

const envelopes = new Envelopes("a secret of this test");

/** What a request asks, read as the gateway does. */
function read(protocol: ProtocolName, operation: Operation, text: string): Conversation {
  const spoken = SPOKEN[protocol] as TranslatedProtocol;
  const { stream } = JSON.parse(text) as { stream?: unknown };
  const received = {
    ...{ protocol: spoken, side: spoken.translation, operation, text, caller: "" },
    streaming: operation.streams === "asked" ? stream === true : operation.streams,
    headers: new HeaderList([]),
    query: new Query(""),
  };
  return readRequest(received, envelopes);
}

/** Sends every request to every other vendor, whatever its models, and to the newest ones. */
export function sendAll(recorded: readonly RecordedRequest[]): Verdict[] {
  return recorded.flatMap((request) =>
    PROTOCOLS.filter((target) => target !== request.protocol && answers(target, request)).flatMap((target) =>
      [false, true].map((newest) => send(request, target, newest)),
    ),
  );
}

const answers = (target: ProtocolName, { operation }: RecordedRequest): boolean =>
  operation.task !== "count" || (SPOKEN[target] as TranslatedProtocol).translation.count !== undefined;

function send(request: RecordedRequest, target: ProtocolName, newest: boolean): Verdict {
  const { id: recording, protocol: source, text } = request;
  const verdict: Verdict = { recording, source, target, newest, faults: [] };
  try {
    const asked = read(source, request.operation, text);
    const [facts, model] = newest ? [NEWEST[target], NEWEST_MODEL[target]] : [{}, "any"];
    const to = { protocol: SPOKEN[target] as TranslatedProtocol, account: "vendor", model, facts };
    const written = writeRequest(asked, to, false);
    verdict.faults.push(...faultsOfWritten(request, asked, written, verdict));
  } catch (error) {
    verdict.faults.push(...faultsOfRefusal(error, text));
    if (error instanceof GatewayError) verdict.refused = { field: error.param ?? "", message: error.message };
    if (!excuse(verdict)) verdict.faults.push(`refused: ${(error as Error).message}`);
  }
  return verdict;
}

function faultsOfWritten(
  { operation, text }: RecordedRequest,
  asked: Conversation,
  { encoded, names, losses }: WrittenRequest,
  { target, newest }: Verdict,
): string[] {
  const back = read(target, encoded.operation, encoded.body);
  const declared = [...losses.dropped, ...losses.notices.map((notice) => notice.split(": ", 1)[0] as string)];
  return [
    ...faultsOf(target, encoded.body, operation.task),
    ...(newest ? newestFaultsOf(target, encoded.body) : []),
    // Nothing says that a model of any name is OpenAI's.
    ...(target === "openai-chat" && !newest ? plainChatFaultsOf(encoded.body) : []),
    ...(target === "openai-responses" && !newest ? plainResponsesFaultsOf(encoded.body) : []),
    ...undeclared(asked, back, { target, names, losses, body: encoded.body }),
    ...unplaced(declared, text).map((path) => `declares ${path}, which the client did not write`),
  ];
}

/** A refusal is a 400 that names a field of the client's. */
function faultsOfRefusal(error: unknown, text: string): string[] {
  if (!(error instanceof GatewayError)) return [`throws ${String((error as Error).stack)}`];
  const { status, param } = error;
  if (status !== 400 || !param) return [`refused with ${status} for no field: ${error.message}`];
  return unplaced([param], text).map((path) => `refused for ${path}, which the client did not write`);
}

/** What became of the recorded requests of one protocol at the vendor of another. */
export interface Tally {
  source: ProtocolName;
  target: ProtocolName;
  sent: number;
  /** How many were refused, by the reason. */
  refused: Readonly<Record<string, number>>;
}

/** The verdicts as rows of a table, for models of which nothing is known. */
export function tally(verdicts: readonly Verdict[]): Tally[] {
  const counted = verdicts.filter((verdict) => !verdict.newest);
  const pairs = PROTOCOLS.flatMap((source) => PROTOCOLS.map((target) => ({ source, target })));
  return pairs
    .filter(({ source, target }) => source !== target)
    .map(({ source, target }) => {
      const those = counted.filter((verdict) => verdict.source === source && verdict.target === target);
      const refused: Record<string, number> = {};
      for (const verdict of those) {
        const reason = verdict.refused && (excuse(verdict) ?? "unknown");
        if (reason !== undefined) refused[reason] = (refused[reason] ?? 0) + 1;
      }
      return { source, target, sent: those.filter((verdict) => !verdict.refused).length, refused };
    });
}
