/** Names and constants of the format, and what it can be asked to do. */
import { asList, asObject, post } from "model-gateway/protocol";

/** This protocol's name, as it stands in conversations and opaque state. */
export const NAME = "openai-responses";

/** Asks for an answer. */
export const RESPONSE = post("response", "/responses", { task: "generate" });
/** Counts the tokens of a question. */
export const INPUT_TOKENS = post("input_tokens", "/responses/input_tokens", {
  streams: false,
  generates: false,
  task: "count",
});
/** Makes a compaction of a conversation. */
export const COMPACT = post("compact", "/responses/compact", { streams: false });

/** An item that names another one, which the vendor keeps, by its id. */
export const REFERENCE = "item_reference";
/** An item that stands for a conversation, in a form that only its maker can read. */
export const COMPACTION = "compaction";
/** The item that asks for one. The vendor takes it as the last item only. [S] */
export const TRIGGER = "compaction_trigger";

/** Values of `include` that the vocabulary has words for. */
export const LOGPROBS = "message.output_text.logprobs";
export const ENCRYPTED = "reasoning.encrypted_content";

/** True for a request's input that asks for a compaction. */
export const asksCompaction = (input: unknown): boolean => asObject(asList(input).at(-1))?.["type"] === TRIGGER;

/** What an envelope says that holds a summary: a plain text that nobody owns, which any provider may read. */
export const SUMMARY = { protocol: "gateway", kind: "summary" } as const;
/** What stands before a summary that comes back. */
export const SUMMARY_LEAD = "Summary of the conversation so far:\n\n";

/** What answers keep beside the encrypted state of a reasoning, for requests that bring it back. */
export interface ReasoningExtra {
  /** The texts of its summary, and of the reasoning itself where the vendor shows it. */
  summary?: readonly string[];
  content?: readonly string[];
}

/** The tool that draws. */
export const DRAWS = "image_generation";

/** Sizes of pictures with the shape of each. [S] */
export const DRAWN: readonly { size: string; aspect: string }[] = [
  { size: "1024x1024", aspect: "1:1" },
  { size: "1024x1536", aspect: "2:3" },
  { size: "1536x1024", aspect: "3:2" },
];

/** Web search under all its names. */
export const WEB_SEARCH = /^web_search(_preview)?(_\d{4}_\d{2}_\d{2})?$/;
