import type { ObjectWords, OtherModelWords, VendorObjects } from "model-gateway/protocol";

/** Hosts of the vendor, whose addresses of files lead to its own; others lead to files that are anybody's. */
const OWN_HOST = /\.googleapis\.com\.?$/;

/** How addresses begin of what lies in a bucket, where the operator's account may read anything. */
const BUCKETS = "gs://";
const STORED = /^\s*gs:(?:\/\/([^/]*))?/i;

/**
 * The last part of a name (`cachedContents/abc`, `projects/p/locations/l/cachedContents/abc`) or of a file's address; of
 * what lies in a bucket the bucket's address, by which no answer calls what a key has made.
 */
function id(text: string): string | undefined {
  const stored = STORED.exec(text);
  if (stored) return BUCKETS + (stored[1] ?? "");
  if (!/^\s*[a-z][a-z0-9+.-]*:/i.test(text)) return lastPart(text);
  // Read as servers do: with a port, a user or other slashes it is the same address.
  const address = URL.canParse(text) ? new URL(text) : undefined;
  return address && OWN_HOST.test(address.hostname) ? lastPart(address.pathname) : undefined;
}

const lastPart = (path: string): string => path.slice(path.lastIndexOf("/") + 1);

/** Cached contents, files and stores of files; the vendor takes both spellings. [S: GenerateContentRequest] */
export const objects: ObjectWords = {
  top: [],
  anywhere: [
    // At the top, and in the request within one whose tokens are counted.
    ...["cachedContent", "cached_content"],
    ...["fileUri", "file_uri", "fileSearchStoreNames", "file_search_store_names"],
  ],
  unread: [
    // Of a function's result only what it says: its `parts` may name files.
    ...["functionCall", "function_call", "response", "labels"],
    ...["functionDeclarations", "function_declarations", "responseSchema", "response_schema"],
    ...["responseJsonSchema", "response_json_schema"],
  ],
  id,
  places: BUCKETS,
  members: [],
  made: () => [],
  tells: () => false,
};

/** Requests within a request say once more which model they are for. [S: BatchEmbedContentsRequest, CountTokensRequest] */
export const otherModels: OtherModelWords = {
  below: ["requests", "generateContentRequest", "generate_content_request"],
  prefix: "models/",
  unread: [
    ...["contents", "content", "tools", "toolConfig", "tool_config", "systemInstruction", "system_instruction"],
    ...["generationConfig", "generation_config", "labels"],
  ],
};

/** Kinds of screens that a tool uses, which stand where an environment is named elsewhere. */
const SCREEN = /^(?:ENVIRONMENT_[A-Z_]+|browser|mobile|desktop)$/;

/** What the vendor keeps, each under a name like `files/abc` or an id. [S: the paths of its SDK] */
export const vendor: VendorObjects = {
  collections: [
    ...["files", "cachedcontents", "batches", "filesearchstores", "corpora", "tunedmodels", "operations"],
    ...["interactions", "agents", "environments", "triggers", "webhooks", "tuningjobs", "batchpredictionjobs"],
    "generatedfiles",
  ],
  actions: [],
  anybodys: ["models"],
  words: {
    ...objects,
    anywhere: [
      ...[...objects.anywhere, "fileName", "file_name", "previous_interaction_id", "interaction_id"],
      ...["environment", "environment_id", "base_environment", "from_environment"],
    ],
    id: (text) => (SCREEN.test(text) ? undefined : id(text)),
    members: ["name", "file", "id"],
  },
  derived: [],
};
