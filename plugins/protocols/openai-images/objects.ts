import type { ObjectMembers } from "model-gateway/protocol";

/** Files used as input images; none is created. [S: ImageEditParams, its `images` and `mask` in JSON] */
export const objects: ObjectMembers = {
  topLevel: [],
  anyDepth: ["file_id"],
  notSearched: ["prompt"],
  createdIdMembers: [],
  createdIds: () => [],
  mayHoldIds: () => false,
};
