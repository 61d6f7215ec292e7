import type { ObjectMembers, OtherModelMembers } from "model-gateway/protocol";

/** Files used as input images; none is created. [S: ImageEditParams, its `images` and `mask` in JSON] */
export const objects: ObjectMembers = {
  topLevel: [],
  anyDepth: ["file_id"],
  notSearched: ["prompt"],
  createdIdMembers: [],
  createdIds: () => [],
  mayHoldIds: () => false,
};

/** Models that other services may draw with instead. [D: OpenRouter, LiteLLM] */
export const otherModels: OtherModelMembers = {
  topLevel: ["models", "fallbacks"],
  searched: ["fallbacks", "extra_body"],
  notSearched: [],
  vendorChoice: ["preset"],
};
