/** Names and constants of the format, and its operations. */
import { asList, asObject, post } from "model-gateway/protocol";

/** This protocol's name in conversations and opaque state. */
export const OPENAI_RESPONSES = "openai-responses";

/** Generates a response. */
export const RESPONSE = post("response", "/responses", { task: "generate" });
/** Counts the tokens of a request. */
export const INPUT_TOKENS = post("input_tokens", "/responses/input_tokens", {
  streams: false,
  generates: false,
  task: "count",
});
/** Creates a compaction of a conversation. */
export const COMPACT = post("compact", "/responses/compact", { streams: false });

/** An item that refers to another one, stored at the vendor, by its id. */
export const ITEM_REFERENCE = "item_reference";
/** An item that replaces a conversation, in a form that only its maker can read. */
export const COMPACTION = "compaction";
/** The item that requests one. The vendor accepts it as the last item only. [S] */
export const COMPACTION_TRIGGER = "compaction_trigger";

/** Values of `include` that conversations have fields for. */
export const INCLUDE_LOGPROBS = "message.output_text.logprobs";
export const INCLUDE_ENCRYPTED = "reasoning.encrypted_content";

/** Reports whether a request's input asks for a compaction. */
export const requestsCompaction = (input: unknown): boolean =>
  asObject(asList(input).at(-1))?.["type"] === COMPACTION_TRIGGER;

/** The members of opaque state with a summary: plain text without an owner, which any provider may read. */
export const SUMMARY_STATE = { protocol: "gateway", kind: "summary" } as const;
/** The text before a summary that is sent back. */
export const SUMMARY_LEAD = "Summary of the conversation so far:\n\n";

/** What envelopes store beside a reasoning's encrypted state, for requests that send it back. */
export interface ReasoningExtra {
  /** The texts of its summary, and of the reasoning itself where the vendor shows it. */
  summary?: readonly string[];
  content?: readonly string[];
}

/** The vendor's tool that generates images. */
export const IMAGE_TOOL = "image_generation";
/** The type of an item with an image that the tool has made. */
export const IMAGE_CALL = "image_generation_call";

/** Sizes of images with their aspect ratios. [S] */
export const IMAGE_SIZES: readonly { size: string; aspect: string }[] = [
  { size: "1024x1024", aspect: "1:1" },
  { size: "1024x1536", aspect: "2:3" },
  { size: "1536x1024", aspect: "3:2" },
];

/** Web search under all its names. */
export const WEB_SEARCH = /^web_search(_preview)?(_\d{4}_\d{2}_\d{2})?$/;
