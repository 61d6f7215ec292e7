import type { Verdict } from "./request-matrix.ts";

interface Refusal {
  /** Of `recording → target: field`, with `*` for each number of a list. */
  requests: RegExp;
  reason: string;
  /** Only of the newest models. */
  newest?: true;
  /** Only of others: the newest take no such setting, which is left out. */
  settable?: true;
}

/** Recorded requests that a vendor of another protocol cannot be asked, by the reason. */
export const REFUSALS: readonly Refusal[] = [
  {
    requests: /chats_function_calling_Vertex_AI_with_function_calling(_stream)?__1 → /,
    reason: "broken: a call without a result",
  },
  {
    requests: /anthropic_completion_error\S* → \S+: messages\.\*$/,
    reason: "broken: its message is a text, which the vendor refused too",
  },
  {
    requests: /invalid_temperature\S* → \S+: generationConfig\.temperature$/,
    reason: "broken: a temperature of 1000, which the vendor refused too",
    settable: true,
  },
  {
    requests: /→ \S+: (background|conversation|previous_response_id|prompt|cachedContent)$/,
    reason: "state that one vendor keeps",
  },
  {
    requests: /^anthropic.*(web_fetch|in_flight_mcp)\S* → \S+: messages\.\*\.content\.\*$/,
    reason: "a tool that one vendor runs, and the conversation has used",
  },
  {
    requests: /^gemini.*(file_search|code_execution)\S* → \S+: contents\.\*\.parts\.\*$/,
    reason: "a tool that one vendor runs, and the conversation has used",
  },
  {
    requests: /^openai-responses.*(file_search|image_generation)\S* → \S+: input\.\*$/,
    reason: "a tool that one vendor runs, and the conversation has used",
  },
  {
    requests: /^openai-responses.*image_generation\S* → \S+: tools\.\*$/,
    reason: "a picture, which the target does not draw",
  },
  { requests: /→ \S+: container$/, reason: "a file in a container of the vendor's" },
  {
    requests: /^anthropic.*code_execution_files\S* → \S+: messages\.\*\.content\.\*$/,
    reason: "a file in a container of the vendor's",
  },
  {
    requests: /(uploaded_?file|google-upload|Url-gs)\S* → /,
    reason: "a file that lies at one vendor",
  },
  {
    requests: /^gemini.*video\S* → /,
    reason: "video, which the target does not take",
  },
  {
    requests: /(AudioUrl|audio|781929fc)\S* → anthropic-messages: \S+\.(content|parts)\.\*$/,
    reason: "audio, which the target does not take",
  },
  {
    requests: /AudioUrl\S* → openai-\S+: /,
    reason: "audio by its URL, which the target only takes as bytes",
  },
  {
    requests: /(document_url|url-document|url-audio|DocumentUrl)\S* → openai-chat: /,
    reason: "a file by its URL, which the target only takes as bytes",
  },
  {
    requests: /(docx_documents|649d8162|without_extension)\S* → (gemini|anthropic-messages): /,
    reason: "a file of a type that the target does not take, or that nothing tells",
  },
  {
    requests: /→ anthropic-messages: (response_format|text\.format|generationConfig\.response\w+Type)$/,
    reason: "JSON without a schema, which the target has no mode for",
  },
  {
    requests: /recursive_schema\S* → anthropic-messages: generationConfig\.responseJsonSchema$/,
    reason: "a schema that contains itself, which the target holds no answer to",
  },
  {
    requests: /→ openai-responses: (stop|stop_sequences|generationConfig\.stopSequences)$/,
    reason: "stop sequences, which the target does not have",
  },
  {
    requests: /→ (anthropic-messages|openai-responses): n$/,
    reason: "several answers, of which the target gives one",
  },
  {
    requests: /→ anthropic-messages: generationConfig\.responseLogprobs$/,
    reason: "likelihoods of tokens, which the target does not tell",
  },
  { requests: /→ \S+: modalities$/, reason: "an answer as audio" },
  {
    requests: /two_empty_string\S* → anthropic-messages: contents\.\*$/,
    reason: "broken: nothing is asked",
  },
  {
    requests: /→ \S+: (messages|input)\.\*$/,
    reason: "an assistant's turn to be continued, which the newest models do not",
    newest: true,
  },
];

/** How a refusal reads in the list. */
export const lineOf = ({ recording, target, refused }: Verdict): string =>
  `${recording} → ${target}: ${refused?.field.replaceAll(/\.\d+/g, ".*")}`;

/** The entry of the list for a refusal; undefined: the request was rightly sent, or wrongly refused. */
export const entryOf = (verdict: Verdict): Refusal | undefined =>
  verdict.refused &&
  REFUSALS.find(({ requests, newest }) => (!newest || verdict.newest) && requests.test(lineOf(verdict)));

/** Why a request was rightly refused. */
export const excuse = (verdict: Verdict): string | undefined => entryOf(verdict)?.reason;
