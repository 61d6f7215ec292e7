import type { ObjectWords, OtherModelWords, VendorObjects } from "model-gateway/protocol";

/** A file's address at the vendor; others lead to files that are anybody's. */
const OWN_ADDRESS = /^https?:\/\/[^/?#]*\.googleapis\.com\/[^?#]*?([^/?#]*)(?:[?#].*)?$/i;

/** The last part of a name (`cachedContents/abc`, `projects/p/locations/l/cachedContents/abc`) or of a file's address. */
function id(text: string): string | undefined {
  if (/^[a-z][a-z0-9+.-]*:/i.test(text)) return OWN_ADDRESS.exec(text)?.[1];
  return text.slice(text.lastIndexOf("/") + 1);
}

/** Cached contents, files and stores of files; the vendor takes both spellings. [S: GenerateContentRequest] */
export const objects: ObjectWords = {
  top: ["cachedContent", "cached_content"],
  anywhere: ["fileUri", "file_uri", "fileSearchStoreNames", "file_search_store_names"],
  unread: [
    ...["functionCall", "function_call", "functionResponse", "function_response", "labels"],
    ...["functionDeclarations", "function_declarations", "responseSchema", "response_schema"],
    ...["responseJsonSchema", "response_json_schema"],
  ],
  id,
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

/** What the vendor keeps, each under a name like `files/abc`. [S] */
export const vendor: VendorObjects = {
  collections: ["files", "cachedcontents", "batches", "filesearchstores", "corpora", "tunedmodels", "operations"],
  actions: [],
  anybodys: ["models"],
  words: {
    ...objects,
    top: [],
    anywhere: [...objects.anywhere, ...objects.top, "fileName", "file_name"],
    members: ["name", "file"],
  },
  derived: [],
};
