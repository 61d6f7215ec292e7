/** The image that the demo draws in conversations. */
import type { Event } from "./events.ts";
import { png } from "./png.ts";

/** Returns the image as a block of a response. */
export const demoImageEvents = (block: number): Event[] => [
  { type: "open", block, choice: 0, kind: "media", media: "image", mime: "image/png" },
  { type: "media", block, base64: demoPng().toString("base64") },
  { type: "close", block },
];

const SIDE = 16;

/** Returns a PNG of 16 × 16 pixels that fades from blue to orange. */
export const demoPng = (): Buffer =>
  png(SIDE, (_, y) => {
    const share = y / (SIDE - 1);
    return [30 + 200 * share, 120, 220 - 180 * share];
  });
