import type { ObjectWords } from "model-gateway/protocol";

/** Files used as input images; none is created. [S: ImageEditParams, its `images` and `mask` in JSON] */
export const objects: ObjectWords = {
  top: [],
  anywhere: ["file_id"],
  notSearched: [],
  members: [],
  createdIds: () => [],
  mayHoldIds: () => false,
};
