import { type RecordingEntry, recordingEntries, storedExchange } from "./recorded.ts";
import { sample } from "./sample.ts";

/** A recorded exchange with a provider, as the gateway can replay it. */
export interface Recording {
  id: string;
  protocol: string;
  vendor: string;
  kinds: readonly string[];
  status: number;
  /** The recorded body. */
  body: Buffer;
  contentType: string;
  /** The path with query for a client of the gateway. */
  path: string;
  streaming: boolean;
  /** The request's body as it was recorded, parsed; undefined where it was not recorded or is no JSON. */
  request?: object | undefined;
}

/** The gateway's protocol and path for each folder of recordings that can be replayed. */
const FOLDERS: Record<string, { protocol: string; path: (stream: "sse" | "array" | "no") => string }> = {
  anthropic: { protocol: "anthropic-messages", path: () => "/v1/messages" },
  "anthropic-count-tokens": { protocol: "anthropic-messages", path: () => "/v1/messages/count_tokens" },
  gemini: {
    protocol: "gemini",
    path: (stream) =>
      stream === "no"
        ? "/v1beta/models/any:generateContent"
        : `/v1beta/models/any:streamGenerateContent${stream === "sse" ? "?alt=sse" : ""}`,
  },
  "gemini-count-tokens": { protocol: "gemini", path: () => "/v1beta/models/any:countTokens" },
  "gemini-embeddings": { protocol: "gemini", path: () => "/v1beta/models/any:batchEmbedContents" },
  "openai-chat": { protocol: "openai-chat", path: () => "/v1/chat/completions" },
  "openai-completions": { protocol: "openai-completions", path: () => "/v1/completions" },
  "openai-responses": { protocol: "openai-responses", path: () => "/v1/responses" },
  "openai-embeddings": { protocol: "openai-embeddings", path: () => "/v1/embeddings" },
  "openai-images": { protocol: "openai-images", path: () => "/v1/images/generations" },
};

/**
 * Returns every recording that a path of the gateway can replay; undefined if the recordings are absent.
 * @param of selects some of them
 */
export function recordings(
  of: (entries: readonly RecordingEntry[]) => readonly RecordingEntry[] = sample,
): Recording[] | undefined {
  const entries = recordingEntries();
  return entries.length > 0 ? of(entries).flatMap(read) : undefined;
}

function read(entry: RecordingEntry): Recording[] {
  const { id, protocol: directory, vendor, kinds } = entry;
  const known = FOLDERS[directory];
  if (!known) return [];
  const { request, response } = storedExchange(entry);
  const asked = kinds.includes("json_array_stream") ? "array" : kinds.includes("stream") ? "sse" : "no";
  const framed = asked === "sse" && response.status < 300 ? "text/event-stream" : "application/json";
  const recorded = response.headers["content-type"];
  const contentType = recorded?.startsWith("application/octet-stream") ? framed : (recorded ?? framed);
  const streaming = asked === "array" || contentType.startsWith("text/event-stream");
  const path = known.path(asked);
  return [
    {
      id,
      protocol: known.protocol,
      vendor,
      kinds,
      status: response.status,
      body: Buffer.from(response.body_raw),
      contentType,
      path,
      streaming,
      request: typeof request?.body === "object" ? (request.body ?? undefined) : undefined,
    },
  ];
}
