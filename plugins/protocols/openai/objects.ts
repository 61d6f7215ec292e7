import type { OtherModelWords, VendorObjects } from "model-gateway/protocol";

/** Members in which the vendor looks for no ids: labels, schemas, and what it told itself before. */
export const UNREAD = [
  ...["metadata", "client_metadata", "attributes", "filters", "schema", "json_schema", "parameters", "arguments"],
  ...["annotations", "results", "logprobs"],
];

/**
 * Without its encrypted state the vendor looks up a reasoning by its id, whatever it says; servers that keep nothing, and agents
 * of other vendors, give ids of their own to what they say.
 */
export const RECALLED = { reasoning: { sealed: "encrypted_content", beside: ["summary", "content"] } } as const;

/** Members of tools that hold schemas and examples, in which `model` is a name like any other. */
export const SCHEMAS = [
  ...UNREAD,
  "properties",
  "input_schema",
  "input_examples",
  "output_schema",
  "format",
  "headers",
];

/** A moderation beside an answer names its own model. [S: Moderation of ChatCompletionCreateParams] */
export const otherModels: OtherModelWords = { below: ["moderation"], unread: SCHEMAS };

/** What the vendor keeps besides answers. [S: the paths of its SDK] */
export const vendor: VendorObjects = {
  collections: [
    ...["files", "uploads", "vector_stores", "batches", "conversations", "responses", "containers", "chat/completions"],
    ...["assistants", "threads", "fine_tuning/jobs", "fine_tuning/checkpoints", "evals", "videos", "videos/characters"],
    ...["skills", "audio/voices", "audio/voice_consents", "chatkit/sessions", "realtime/calls", "live/sessions"],
    ...["agents", "agents/automations", "agents/environments", "agents/environments/templates", "agents/sessions"],
    ...["vaults", "webhook_endpoints", "safety/alerts", "safety/cases"],
  ],
  actions: ["input_tokens", "compact", "runs", "edits", "extensions", "completions"],
  anybodys: ["models", "deployments", "engines"],
  words: {
    top: [],
    anywhere: [
      ...["file_id", "file_ids", "input_file_id", "training_file", "validation_file", "image_file"],
      ...["vector_store_id", "vector_store_ids", "container", "container_id", "skill_id", "assistant_id", "thread_id"],
      ...["previous_response_id", "conversation", "eval_id", "upload_id", "response_id", "conversation_id"],
      ...["agent_id", "environment_id", "vault_id", "vault_ids", "tunnel_id", "consent"],
    ],
    // A prompt is a text in some calls, a voice a word, a video a file.
    asObjects: ["prompt", "voice", "video"],
    references: ["item_reference", "file_id"],
    whole: { image_generation_call: "result" },
    recalled: RECALLED,
    // Evaluations read what was answered to anybody.
    sources: ["stored_completions", "responses"],
    untyped: true,
    unread: UNREAD,
    members: ["id", "file"],
    made: () => [],
    tells: () => false,
  },
  // [S: Batch, FineTuningJob]
  derived: { batches: ["output_file_id", "error_file_id"], "fine_tuning/jobs": ["result_files"] },
};
