import type { Media } from "model-gateway/protocol";

/** What sort of media a type like `image/png` is of; all that is neither picture, sound nor film is a file. */
export function mediaOf(mime: string | undefined): Media["media"] {
  const kind = mime?.split("/", 1)[0]?.toLowerCase();
  return kind === "image" || kind === "audio" || kind === "video" ? kind : "file";
}
