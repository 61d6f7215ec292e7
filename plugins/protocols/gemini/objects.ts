import type { ObjectWords, OtherModelWords, VendorObjects } from "model-gateway/protocol";

/** Hosts of the vendor, whose addresses of files lead to its own; others lead to files that are anybody's. */
const OWN_HOST = /(?:^|\.)googleapis\.com\.?$/;
/** Those of its models, and the addresses there of what a key has made; keys choose names themselves, and no other's may fit. */
const MODELS_HOST = /^(?:generativelanguage|(?:[a-z0-9-]+-)?aiplatform)\.googleapis\.com\.?$/;
const MADE = /\/(?:files|cachedContents|fileSearchStores)\/([^/:]+)(?::download)?$/;
/** Those of its buckets, whose names stand in front of the host's, or first in the path. */
const STORE_HOST = /^(?:(.+)\.)?(?:commondata)?storage\.googleapis\.com\.?$/;

/** How addresses begin of what lies in a bucket, where the operator's account may read anything. */
const BUCKETS = "gs://";
const STORED = /^\s*gs:(?:\/\/([^/]*))?/i;
/** The name of a table there. */
const TABLE = /^\s*bq:\/*(.*)$/is;

/**
 * The last part of a name (`cachedContents/abc`, `projects/p/locations/l/cachedContents/abc`) or of a file's address; of
 * what lies in a bucket the bucket's address, by which no answer calls what a key has made.
 */
function id(text: string): string | undefined {
  const stored = STORED.exec(text);
  if (stored) return BUCKETS + (stored[1] ?? "");
  const table = TABLE.exec(text);
  if (table) return table[1];
  if (!/^\s*[a-z][a-z0-9+.-]*:/i.test(text)) return lastPart(text);
  // Read as servers do: with a port, a user or other slashes it is the same address.
  const address = URL.canParse(text) ? new URL(text) : undefined;
  return address && OWN_HOST.test(address.hostname) ? idAt(address) : undefined;
}

/** What an address of the vendor's leads to; of what is no key's the bucket, or the host like one. */
function idAt({ hostname, pathname }: URL): string {
  const made = MODELS_HOST.test(hostname) ? MADE.exec(pathname)?.[1] : undefined;
  if (made !== undefined) return made;
  const store = STORE_HOST.exec(hostname);
  return BUCKETS + (store ? (store[1] ?? pathname.split("/", 2)[1] ?? "") : hostname);
}

const lastPart = (path: string): string => path.slice(path.lastIndexOf("/") + 1);

/** Cached contents, files and stores of files; the vendor takes both spellings. [S: GenerateContentRequest] */
export const objects: ObjectWords = {
  top: [],
  anywhere: [
    // At the top, and in the request within one whose tokens are counted.
    ...["cachedContent", "cached_content"],
    ...["fileUri", "file_uri", "fileSearchStoreNames", "file_search_store_names"],
    // Stores that the operator's project searches, and its templates of Model Armor. [S: Retrieval, ModelArmorConfig]
    ...["ragCorpora", "rag_corpora", "ragCorpus", "rag_corpus"],
    ...["datastore", "dataStore", "data_store", "engine"],
    ...["promptTemplateName", "prompt_template_name", "responseTemplateName", "response_template_name"],
  ],
  // The vendor calls the one with the operator's identity and secrets; the other lets it choose another model.
  itself: ["externalApi", "external_api", "routingConfig", "routing_config"],
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

/** Where calls that run for long read what they work on, and write what comes of it. [S: BatchJob, TuningJob] */
const PLACES = [
  ...[
    "uris",
    "outputUriPrefix",
    "output_uri_prefix",
    "inputUri",
    "input_uri",
    "outputUri",
    "output_uri",
    "gcsUri",
    "gcs_uri",
  ],
  ...["trainingDatasetUri", "training_dataset_uri", "validationDatasetUri", "validation_dataset_uri"],
];

/** Members that name a model, anybody's or one that a key has tuned. */
const MODELS: ReadonlySet<unknown> = new Set(["model", "baseModel", "base_model", "sourceModel", "source_model"]);
const TUNED = /(?:^|\/)\s*tunedModels\//i;

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
      ...PLACES,
      ...["environment", "environment_id", "base_environment", "from_environment"],
      ...["tunedModel", "tuned_model", "model", "baseModel", "base_model", "sourceModel", "source_model"],
    ],
    id: (text, member) => (SCREEN.test(text) || (MODELS.has(member) && !TUNED.test(text)) ? undefined : id(text)),
    members: ["name", "file", "id"],
  },
  derived: {},
  uploads: {
    path: "/upload",
    headers: ["x-goog-upload-*"],
    addresses: ["x-goog-upload-url", "x-goog-upload-control-url"],
    session: "upload_id",
  },
};
