import type { ObjectMembers, OtherModelMembers, VendorObjects } from "model-gateway/protocol";

/** Hosts of the vendor: URLs of files there lead to its own storage; other URLs are public files. */
const OWN_HOST = /(?:^|\.)googleapis\.com\.?$/;
const OWN_DOMAIN = "googleapis.com";
/** The user and the host of a URL, as far as any parser reads them; spaces and slashes in front are skipped. */
const AUTHORITY = /^\s*[a-z][a-z0-9+.-]*:[/\\\s]*([^/?#]*)/i;
/** Characters of the longest that is read. */
const MAX_AUTHORITY = 512;
/** Hosts in other scripts, which take parsers a hundred times as long; the vendor's are in ASCII. */
const SLOW_HOST = /[^!-~]|xn--/i;
/**
 * Hosts of its API, where paths may lead to objects of a key. Keys choose some names themselves, which must match no other
 * path.
 */
const API_HOST = /^(?:generativelanguage|(?:[a-z0-9-]+-)?aiplatform)\.googleapis\.com\.?$/;
const OBJECT_PATH = /\/(?:files|cachedContents|fileSearchStores)\/([^/:]+)(?::download)?$/;
/** Hosts of its buckets, whose names are before the host's name or first in the path. */
const STORAGE_HOST = /^(?:(.+)\.)?(?:commondata)?storage\.googleapis\.com\.?$/;

/** The prefix of addresses in a bucket, where the operator's account may read anything. */
const BUCKETS = "gs://";
const GS_URI = /^\s*gs:(?:\/\/([^/]*))?/i;
/** The address of a BigQuery table. */
const BQ_URI = /^\s*bq:\/*(.*)$/is;

/**
 * Returns the last part of a name (`cachedContents/abc`, `projects/p/locations/l/cachedContents/abc`) or of a file's URL. For
 * anything in a bucket it returns the bucket's address, which no response ever reports as the id of a key's object.
 */
function objectId(text: string): string | undefined {
  const bucketMatch = GS_URI.exec(text);
  if (bucketMatch) return BUCKETS + (bucketMatch[1] ?? "");
  const tableMatch = BQ_URI.exec(text);
  if (tableMatch) return tableMatch[1];
  if (!/^\s*[a-z][a-z0-9+.-]*:/i.test(text)) return lastPart(text);
  const authority = AUTHORITY.exec(text)?.[1]?.replaceAll(/[\t\r\n]/g, "") ?? "";
  const host = percentDecoded(authority.slice(0, MAX_AUTHORITY));
  if (authority.length > MAX_AUTHORITY || SLOW_HOST.test(host))
    return authority.length > MAX_AUTHORITY || mayReadAsOwnHost(host) ? BUCKETS + OWN_DOMAIN : undefined;
  if (!host.toLowerCase().includes(OWN_DOMAIN)) return undefined;
  // Parsed as servers do: with a port, a user or extra slashes it is the same URL.
  const url = URL.canParse(text) ? new URL(text) : undefined;
  return url && OWN_HOST.test(url.hostname) ? objectIdInUrl(url) : undefined;
}

/** Reports whether a host in any script may be one of the vendor's to a server: letters of many scripts are read as Latin ones. */
const mayReadAsOwnHost = (host: string): boolean =>
  host
    .normalize("NFKC")
    .toLowerCase()
    .replaceAll(/[^a-z0-9]/g, "")
    .includes("googleapis");

function percentDecoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Returns the object id in one of the vendor's URLs; for what no key can own the bucket's address, or that of the host. */
function objectIdInUrl({ hostname, pathname }: URL): string {
  const id = API_HOST.test(hostname) ? OBJECT_PATH.exec(pathname)?.[1] : undefined;
  if (id !== undefined) return id;
  const bucketMatch = STORAGE_HOST.exec(hostname);
  return BUCKETS + (bucketMatch ? (bucketMatch[1] ?? pathname.split("/", 2)[1] ?? "") : hostname);
}

const lastPart = (path: string): string => path.slice(path.lastIndexOf("/") + 1);

/** Cached contents, files and file stores; the vendor accepts both spellings. [S: GenerateContentRequest] */
export const objects: ObjectMembers = {
  topLevel: [],
  anyDepth: [
    // At the top, and in the request inside one whose tokens are counted.
    ...["cachedContent", "cached_content"],
    ...["fileUri", "file_uri", "fileSearchStoreNames", "file_search_store_names"],
    // Stores that the operator's project searches, and its Model Armor templates. [S: Retrieval, ModelArmorConfig]
    ...["ragCorpora", "rag_corpora", "ragCorpus", "rag_corpus"],
    ...["datastore", "dataStore", "data_store", "engine"],
    ...["promptTemplateName", "prompt_template_name", "responseTemplateName", "response_template_name"],
    // The bucket of generated media. [S: GenerationOutputConfig]
    ...["outputUriPrefix", "output_uri_prefix"],
  ],
  byPresence: [
    // Called with the operator's identity and secrets, as are tools with these credentials. [S: AuthConfig]
    ...["externalApi", "external_api", "apiKeySecret", "api_key_secret", "credentialSecret", "credential_secret"],
    ...["googleServiceAccountConfig", "google_service_account_config", "serviceAccount", "service_account"],
    // Lets the vendor choose another model.
    ...["routingConfig", "routing_config"],
  ],
  notSearched: [
    // Of a function result, only `response` is skipped: its `parts` may name files.
    ...["functionCall", "function_call", "response", "labels"],
    ...["functionDeclarations", "function_declarations", "responseSchema", "response_schema"],
    ...["responseJsonSchema", "response_json_schema"],
  ],
  id: objectId,
  placePrefix: BUCKETS,
  createdIdMembers: [],
  createdIds: () => [],
  mayHoldIds: () => false,
};

/** Requests inside a request name their model again. [S: BatchEmbedContentsRequest, CountTokensRequest] */
export const otherModels: OtherModelMembers = {
  searched: ["requests", "generateContentRequest", "generate_content_request"],
  prefix: "models/",
  notSearched: [
    ...["contents", "content", "tools", "toolConfig", "tool_config", "systemInstruction", "system_instruction"],
    ...["generationConfig", "generation_config", "labels"],
  ],
};

/** Members with the input and output locations of long-running operations. [S: BatchJob, TuningJob] */
const URI_MEMBERS = [
  ...["uris", "inputUri", "input_uri", "outputUri", "output_uri", "gcsUri", "gcs_uri"],
  ...["trainingDatasetUri", "training_dataset_uri", "validationDatasetUri", "validation_dataset_uri"],
];

/** Members that name a model: a public one, or one that a key has tuned. */
const MODEL_MEMBERS: ReadonlySet<unknown> = new Set([
  "model",
  "baseModel",
  "base_model",
  "sourceModel",
  "source_model",
]);
const TUNED_MODEL = /(?:^|\/)\s*tunedModels\//i;

/** Kinds of computer-use screens, in members that elsewhere name an environment. */
const SCREEN_KIND = /^(?:ENVIRONMENT_[A-Z_]+|browser|mobile|desktop)$/;

/** Objects that the vendor stores, each under a name like `files/abc` or an id. [S: the paths of its SDK] */
export const vendorObjects: VendorObjects = {
  collections: [
    ...["files", "cachedcontents", "batches", "filesearchstores", "corpora", "tunedmodels", "operations"],
    ...["interactions", "agents", "environments", "triggers", "webhooks", "tuningjobs", "batchpredictionjobs"],
    "generatedfiles",
  ],
  actions: [],
  public: ["models"],
  account: ["webhooks"],
  bodyMembers: {
    ...objects,
    anyDepth: [
      ...[...objects.anyDepth, "fileName", "file_name", "previous_interaction_id", "interaction_id"],
      ...URI_MEMBERS,
      ...["environment", "environment_id", "base_environment", "from_environment"],
      ...["tunedModel", "tuned_model", "model", "baseModel", "base_model", "sourceModel", "source_model"],
    ],
    id: (text, member) =>
      SCREEN_KIND.test(text) || (MODEL_MEMBERS.has(member) && !TUNED_MODEL.test(text)) ? undefined : objectId(text),
    createdIdMembers: ["name", "file", "id"],
  },
  derived: {},
  resumableUploads: {
    pathPrefix: "/upload",
    headers: ["x-goog-upload-*"],
    urlHeaders: ["x-goog-upload-url", "x-goog-upload-control-url"],
    sessionParameter: "upload_id",
  },
};
