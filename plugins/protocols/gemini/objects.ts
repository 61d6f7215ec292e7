import type { ObjectWords, OtherModelWords, VendorObjects } from "model-gateway/protocol";

/** Hosts of the vendor, whose addresses of files lead to its own; others lead to files that are anybody's. */
const OWN_HOST = /(?:^|\.)googleapis\.com\.?$/;
/** Those of its models, and the addresses there of what a key has made; keys choose names themselves, and no other's may fit. */
const API_HOST = /^(?:generativelanguage|(?:[a-z0-9-]+-)?aiplatform)\.googleapis\.com\.?$/;
const OBJECT_PATH = /\/(?:files|cachedContents|fileSearchStores)\/([^/:]+)(?::download)?$/;
/** Those of its buckets, whose names stand in front of the host's, or first in the path. */
const STORAGE_HOST = /^(?:(.+)\.)?(?:commondata)?storage\.googleapis\.com\.?$/;

/** How addresses begin of what lies in a bucket, where the operator's account may read anything. */
const BUCKETS = "gs://";
const GS_URI = /^\s*gs:(?:\/\/([^/]*))?/i;
/** The name of a table there. */
const BQ_URI = /^\s*bq:\/*(.*)$/is;

/**
 * The last part of a name (`cachedContents/abc`, `projects/p/locations/l/cachedContents/abc`) or of a file's address; of
 * what lies in a bucket the bucket's address, by which no answer calls what a key has made.
 */
function objectId(text: string): string | undefined {
  const stored = GS_URI.exec(text);
  if (stored) return BUCKETS + (stored[1] ?? "");
  const table = BQ_URI.exec(text);
  if (table) return table[1];
  if (!/^\s*[a-z][a-z0-9+.-]*:/i.test(text)) return lastPart(text);
  // Read as servers do: with a port, a user or other slashes it is the same address.
  const address = URL.canParse(text) ? new URL(text) : undefined;
  return address && OWN_HOST.test(address.hostname) ? objectIdInUrl(address) : undefined;
}

/** What an address of the vendor's leads to; of what is no key's the bucket, or the host like one. */
function objectIdInUrl({ hostname, pathname }: URL): string {
  const made = API_HOST.test(hostname) ? OBJECT_PATH.exec(pathname)?.[1] : undefined;
  if (made !== undefined) return made;
  const store = STORAGE_HOST.exec(hostname);
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
  byPresence: ["externalApi", "external_api", "routingConfig", "routing_config"],
  notSearched: [
    // Of a function's result only what it says: its `parts` may name files.
    ...["functionCall", "function_call", "response", "labels"],
    ...["functionDeclarations", "function_declarations", "responseSchema", "response_schema"],
    ...["responseJsonSchema", "response_json_schema"],
  ],
  id: objectId,
  placePrefix: BUCKETS,
  members: [],
  createdIds: () => [],
  mayHoldIds: () => false,
};

/** Requests within a request say once more which model they are for. [S: BatchEmbedContentsRequest, CountTokensRequest] */
export const otherModels: OtherModelWords = {
  below: ["requests", "generateContentRequest", "generate_content_request"],
  prefix: "models/",
  notSearched: [
    ...["contents", "content", "tools", "toolConfig", "tool_config", "systemInstruction", "system_instruction"],
    ...["generationConfig", "generation_config", "labels"],
  ],
};

/** Where calls that run for long read what they work on, and write what comes of it. [S: BatchJob, TuningJob] */
const URI_MEMBERS = [
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
const MODEL_MEMBERS: ReadonlySet<unknown> = new Set([
  "model",
  "baseModel",
  "base_model",
  "sourceModel",
  "source_model",
]);
const TUNED_MODEL = /(?:^|\/)\s*tunedModels\//i;

/** Kinds of screens that a tool uses, which stand where an environment is named elsewhere. */
const SCREEN_KIND = /^(?:ENVIRONMENT_[A-Z_]+|browser|mobile|desktop)$/;

/** What the vendor keeps, each under a name like `files/abc` or an id. [S: the paths of its SDK] */
export const vendor: VendorObjects = {
  collections: [
    ...["files", "cachedcontents", "batches", "filesearchstores", "corpora", "tunedmodels", "operations"],
    ...["interactions", "agents", "environments", "triggers", "webhooks", "tuningjobs", "batchpredictionjobs"],
    "generatedfiles",
  ],
  actions: [],
  public: ["models"],
  words: {
    ...objects,
    anywhere: [
      ...[...objects.anywhere, "fileName", "file_name", "previous_interaction_id", "interaction_id"],
      ...URI_MEMBERS,
      ...["environment", "environment_id", "base_environment", "from_environment"],
      ...["tunedModel", "tuned_model", "model", "baseModel", "base_model", "sourceModel", "source_model"],
    ],
    id: (text, member) =>
      SCREEN_KIND.test(text) || (MODEL_MEMBERS.has(member) && !TUNED_MODEL.test(text)) ? undefined : objectId(text),
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
