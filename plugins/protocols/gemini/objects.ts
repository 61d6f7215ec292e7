import {
  asObject,
  asText,
  decodeOrKeep,
  type ObjectMembers,
  type OtherModelMembers,
  type VendorObjects,
} from "model-gateway/protocol";

/** Hosts of the vendor: URLs of files there lead to its own storage; other URLs are public files. */
const OWN_HOST = /(?:^|\.)googleapis\.com\.?$/;
const OWN_DOMAIN = "googleapis.com";
/** The user and the host of a URL, as far as any parser reads them; spaces and slashes in front are skipped. */
const AUTHORITY = /^\s*[a-z][a-z0-9+.-]*:[/\\\s]*([^/?#]*)/i;
/** Characters of the longest that is read. */
const MAX_AUTHORITY = 512;
/** Hosts in other scripts, which take parsers a hundred times as long; the vendor's are in ASCII. */
const SLOW_HOST = /[^!-~]|xn--/i;
/** Characters of the longest in another script that is compared with the vendor's; real names are shorter. */
const MAX_OTHER_SCRIPT = 64;
const OTHER_SCRIPT = /[^!-~]/;
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
  if (!/^\s*[a-z][a-z0-9+.-]*:/i.test(text)) return idInName(text) ?? lastPart(text);
  const authority = AUTHORITY.exec(text)?.[1]?.replaceAll(/[\t\r\n]/g, "") ?? "";
  const host = decodeOrKeep(authority.slice(0, MAX_AUTHORITY));
  // What is too long to compare counts as the vendor's.
  const isLong = authority.length > MAX_AUTHORITY || (host.length > MAX_OTHER_SCRIPT && OTHER_SCRIPT.test(host));
  if (isLong || (SLOW_HOST.test(host) && mayReadAsOwnHost(host))) return BUCKETS + OWN_DOMAIN;
  if (SLOW_HOST.test(host)) return undefined;
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

/** Returns the object id in one of the vendor's URLs; for what no key can own the bucket's address, or that of the host. */
function objectIdInUrl({ hostname, pathname }: URL): string {
  const id = API_HOST.test(hostname) ? OBJECT_PATH.exec(pathname)?.[1] : undefined;
  if (id !== undefined) return id;
  const bucketMatch = STORAGE_HOST.exec(hostname);
  return BUCKETS + (bucketMatch ? (bucketMatch[1] ?? pathname.split("/", 2)[1] ?? "") : hostname);
}

/** Collections of objects that keys make, as names of objects spell them. [S: the paths of its SDK] */
const NAMED_COLLECTIONS = [
  ...[
    "files",
    "cachedContents",
    "batches",
    "fileSearchStores",
    "corpora",
    "tunedModels",
    "operations",
    "generatedFiles",
  ],
  ...["interactions", "environments", "triggers", "tuningJobs", "batchPredictionJobs", "ragCorpora", "ragStores"],
];
/** What an object's name may begin with before its collection; each step ends at a slash, so that the work is linear. */
const NAME_PREFIX = "(?:v\\d\\w*/)?(?:projects/[^/\\s]+/locations/[^/\\s]+/)?(?:models/[^/\\s]+/)?";
const NAME = new RegExp(`^\\s*${NAME_PREFIX}(?:${NAMED_COLLECTIONS.join("|")})/([^/\\s]+)(?:/\\S*)?\\s*$`);
/** Other resources of a project, which belong to no key. Those of publishers are anybody's. */
const PROJECT_NAME =
  /^\s*(?:v\d\w*\/)?projects\/[^/\s]+\/(?:locations\/[^/\s]+\/(?!publishers\/)|(?:secrets|serviceAccounts|topics)\/)\S+\s*$/;
/** A step that leads elsewhere. */
const DOT_STEP = /\/\.\.?(?:\/|\s*$)/;

/** Returns the id of the outermost object in a name: what is below it is its maker's too. */
const idInName = (text: string): string | undefined => (DOT_STEP.test(text) ? undefined : NAME.exec(text)?.[1]);

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

/** Every spelling of a scheme: readers ignore case. */
const spellings = (scheme: string): string[] =>
  [...scheme].reduce((all, letter) => all.flatMap((text) => [text + letter, text + letter.toUpperCase()]), [""]);
const SCHEMES = ["gs", "bq", "ht"].flatMap(spellings);
const ADDRESS = /^\s*(?:(?:gs|bq):[/\\]|https?:)/i;
const NO_SCHEME = /^\s*[/\\]{2}/;

/**
 * Names and addresses in members of any name: each part of the API has its own for locations of input and output. Of a tool's
 * result only content is looked up. [S: ImageContent, Source, SemanticRetrieverConfig, GenerateVideosConfig, OutputConfig]
 */
const recognized: NonNullable<ObjectMembers["recognized"]> = {
  starts: [
    ...SCHEMES,
    // Readers of addresses skip white space before them.
    ...["  ", "\\n", "\\t", "\\r", "\\/", "//", ...SCHEMES.map((scheme) => ` ${scheme}`)],
    ...["v1", "projects", "models", ...NAMED_COLLECTIONS],
  ],
  texts: [
    ...["text", "prompt", "negativePrompt", "negative_prompt", "query", "input", "content", "context", "title", "code"],
    ...["description", "displayName", "display_name", "systemInstruction", "system_instruction", "output"],
    ...["stopSequences", "stop_sequences", "metadataFilter", "metadata_filter", "pattern"],
    // Names of what a request makes: of an object, in an environment.
    ...["name", "target"],
    // Base64.
    ...["data", "signature", "thoughtSignature", "thought_signature"],
  ],
  data: [
    ...["args", "arguments", "result", "env", "headers", "metadata", "customMetadata", "custom_metadata"],
    ...["default", "enum", "const", "example", "examples"],
  ],
  contentTypes: ["image", "audio", "video", "document"],
  id: (text) => {
    if (NO_SCHEME.test(text)) return objectId(`https:${text.trimStart()}`);
    return ADDRESS.test(text) || NAME.test(text) || PROJECT_NAME.test(text) ? objectId(text) : undefined;
  },
};

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

/** An id with a capital, which no file here has: of another protocol that the same provider speaks. [D: File.name] */
const OTHER_FILE = /^(?=[\w-]{1,128}$).*[A-Z]/;

type Uploads = NonNullable<VendorObjects["resumableUploads"]>;

const piece: Uploads["piece"] = (headers) => {
  const offset = headers.get("x-goog-upload-offset");
  if (offset === undefined || !/^\d{1,15}$/.test(offset)) return undefined;
  return { offset: Number(offset), last: headers.get("x-goog-upload-command")?.includes("finalize") === true };
};

/** [S: File] */
const uploadedFile: Uploads["uploadedFile"] = (response) => {
  const { name, sha256Hash, expirationTime } = asObject(response["file"]) ?? {};
  const id = lastPart(asText(name) ?? "");
  const sha256 = hexDigest(asText(sha256Hash) ?? "");
  const expires = Date.parse(asText(expirationTime) ?? "");
  return id === "" || sha256 === undefined || Number.isNaN(expires) ? undefined : { id, sha256, expires };
};

const HEX_DIGEST = /^[0-9a-f]{64}$/i;

/** Returns a SHA-256 in hexadecimal digits. It comes in base64, which holds these digits in turn or the bytes themselves. */
function hexDigest(text: string): string | undefined {
  const bytes = Buffer.from(text, "base64");
  const hex = [text, bytes.toString("latin1")].find((each) => HEX_DIGEST.test(each));
  return hex?.toLowerCase() ?? (bytes.length === 32 ? bytes.toString("hex") : undefined);
}

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
      ...[...objects.anyDepth, "fileName", "file_name", "input_file_id", "previous_interaction_id", "interaction_id"],
      ...URI_MEMBERS,
      ...["environment", "environment_id", "base_environment", "from_environment"],
      ...["tunedModel", "tuned_model", "model", "baseModel", "base_model", "sourceModel", "source_model"],
    ],
    id: (text, member) => {
      if (SCREEN_KIND.test(text) || (member === "input_file_id" && OTHER_FILE.test(text))) return undefined;
      return MODEL_MEMBERS.has(member) && !TUNED_MODEL.test(text) ? undefined : objectId(text);
    },
    recognized,
    // A batch's; elsewhere `fileName` is a document. [S: InputConfig, ImportFileRequest] [D: OpenAI compatibility]
    requestFiles: [
      { members: ["fileName", "file_name"], inside: ["inputConfig", "input_config"] },
      { members: ["input_file_id"] },
    ],
    createdIdMembers: ["name", "file", "id"],
  },
  // The file with a batch's answers. [S: BatchJob, batchJobFromMldev]
  derived: { batches: ["metadata.output.responsesFile", "response.responsesFile"] },
  resumableUploads: {
    pathPrefix: "/upload",
    headers: ["x-goog-upload-*"],
    urlHeaders: ["x-goog-upload-url", "x-goog-upload-control-url"],
    sessionParameter: "upload_id",
    piece,
    uploadedFile,
  },
};
