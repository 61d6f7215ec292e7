import type { ObjectMembers, OtherModelMembers, VendorObjects } from "model-gateway/protocol";

/** Members in which the vendor reads no ids: labels, schemas, and the vendor's own earlier output. */
export const UNREAD_MEMBERS = [
  ...["metadata", "client_metadata", "attributes", "filters", "schema", "json_schema", "parameters", "arguments"],
  ...["annotations", "results", "logprobs"],
];

/**
 * Reasoning items that the vendor looks up by id, whatever their content, if they have no encrypted state. Servers that store
 * nothing, and other vendors' agents, give their items ids of their own.
 */
export const LOOKED_UP_ITEMS = { reasoning: { sealed: "encrypted_content", beside: ["summary", "content"] } } as const;

/**
 * Members of tools that contain schemas and examples, in which `model` is an ordinary name. `parameters` is searched: of a function
 * they are a schema, of some vendors' tools they name models.
 */
export const SCHEMA_MEMBERS = [
  ...UNREAD_MEMBERS.filter((name) => name !== "parameters"),
  "properties",
  "default",
  "examples",
  "const",
  "input_schema",
  "input_examples",
  "output_schema",
  "format",
  "headers",
];

/** Tools and plugins that run models which the vendor chooses where a request names none. [D: OpenRouter] */
export const CHOOSING_TOOLS = [
  ...["openrouter:fusion", "openrouter:advisor", "openrouter:subagent", "openrouter:image_generation"],
  ...["fusion", "advisor", "subagent"],
];

/**
 * A moderation in a request names its own model [S: Moderation of ChatCompletionCreateParams]; so do tools and plugins that other
 * vendors run (advisor, fusion, subagent, images), compound systems, a model that watches the answer, and fallbacks. A preset, which
 * the vendor keeps, may have a model too. [D: OpenRouter, Groq, Together, LiteLLM]
 */
export const otherModels: OtherModelMembers = {
  topLevel: ["safety_model", "models", "fallbacks"],
  searched: ["moderation", "tools", "plugins", "compound_custom", "fallbacks", "extra_body"],
  notSearched: SCHEMA_MEMBERS,
  vendorChoice: ["preset"],
  choosingTools: CHOOSING_TOOLS,
};

/** What ids of the vendor's objects begin with, as far as they are known; those of its newest objects by the names of their paths. */
const ID_PREFIXES = [
  ...["file-", "file_", "vs_", "ft", "asst_", "thread_", "resp_", "conv_", "cntr_", "skill_", "eval", "batch_"],
  ...["upload_", "video_", "voice_", "cons_", "env", "agent", "vault", "pmpt_", "automation", "tunnel_", "sess"],
];
const ID_MEMBER = /_ids?$/i;
const VENDOR_ID = new RegExp(`^(?:${ID_PREFIXES.join("|")})[\\w.-]{0,128}$`);

/** Ids in members that are not listed below: many members end in `_id`, and not all of them name what the vendor stores. */
const recognized: NonNullable<ObjectMembers["recognized"]> = {
  starts: ID_PREFIXES,
  mayBeInvented: true,
  id: (text, member) => (ID_MEMBER.test(member) && VENDOR_ID.test(text) ? text : undefined),
};

/** Other objects that the vendor stores. [S: the paths of its SDK] */
export const vendorObjects: VendorObjects = {
  collections: [
    ...["files", "uploads", "vector_stores", "batches", "conversations", "responses", "containers", "chat/completions"],
    ...["assistants", "threads", "fine_tuning/jobs", "fine_tuning/checkpoints", "evals", "videos", "videos/characters"],
    ...["skills", "audio/voices", "audio/voice_consents", "chatkit/sessions", "realtime/calls", "live/sessions"],
    ...["agents", "agents/automations", "agents/environments", "agents/environments/templates", "agents/sessions"],
    ...["vaults", "webhook_endpoints", "safety/alerts", "safety/cases"],
  ],
  actions: ["input_tokens", "compact", "runs", "edits", "extensions", "completions"],
  public: ["models", "deployments", "engines"],
  account: ["organization", "organizations", "webhook_endpoints"],
  bodyMembers: {
    topLevel: [],
    anyDepth: [
      ...["file_id", "file_ids", "input_file_id", "training_file", "validation_file", "image_file"],
      ...["vector_store_id", "vector_store_ids", "container", "container_id", "skill_id", "assistant_id", "thread_id"],
      ...["previous_response_id", "conversation", "eval_id", "upload_id", "response_id", "conversation_id"],
      ...["agent_id", "environment_id", "vault_id", "vault_ids", "tunnel_id", "consent", "comparison_response_id"],
      "environment_template_id",
    ],
    // In some endpoints a prompt is a text, a voice a name, a video a file.
    objectsOnly: ["prompt", "voice", "video"],
    referenceTypes: ["item_reference", "file_id"],
    inlineContent: { image_generation_call: "result" },
    outputItems: LOOKED_UP_ITEMS,
    // Evaluations read responses to any caller.
    sharedSourceTypes: ["stored_completions", "responses"],
    untypedElements: true,
    recognized,
    notSearched: UNREAD_MEMBERS,
    createdIdMembers: ["id", "file"],
    createdIds: () => [],
    mayHoldIds: () => false,
  },
  // [S: Batch, FineTuningJob]
  derived: { batches: ["output_file_id", "error_file_id"], "fine_tuning/jobs": ["result_files"] },
  // [S: FilePurpose] [D: Together]
  requestFiles: { field: "file", purposeField: "purpose", purposes: ["batch", "batch-api"], uploads: "uploads" },
};
