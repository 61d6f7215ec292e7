import type { ObjectWords } from "model-gateway/protocol";

/** Files that pictures are made from; none is made here. [S: ImageEditParams, its `images` and `mask` in JSON] */
export const objects: ObjectWords = {
  top: [],
  anywhere: ["file_id"],
  unread: [],
  members: [],
  made: () => [],
  tells: () => false,
};
