import { Frame } from "../wire/frame.ts";
import type { Exchange } from "./exchange.ts";
import { toPluginError } from "./plugin-deadline.ts";
import type { Stage } from "./stage.ts";
import type { streamCheck } from "./stream-check.ts";

/**
 * Wraps a stage so that its errors name the plugin; returning anything but frames is an error. The end follows, once and last,
 * whatever it returns for it: stages before it in the chain complete the response then.
 */
export const checkedStage =
  (stage: Stage, origin: string, check?: ReturnType<typeof streamCheck>): Stage =>
  (frame) => {
    try {
      const made = stage(frame);
      if (made === undefined || made === frame) return made;
      if (made instanceof Frame || areFrames(made)) {
        const frames = made instanceof Frame ? [made] : made;
        check?.(frame, frames);
        return frame.kind === "end" ? [...frames.filter(({ kind }) => kind !== "end"), frame] : made;
      }
      if ((made as unknown) instanceof Promise) (made as unknown as Promise<unknown>).catch(() => {});
      throw new TypeError("A stage gives frames or nothing, and gives them at once.");
    } catch (thrown) {
      throw toPluginError(thrown, origin);
    }
  };

/** Wraps a stage whose frames are translated after it: it reads their texts in the provider's protocol. */
export function untranslatedStage(stage: Stage, exchange: Exchange): Stage {
  return (frame) => {
    exchange.seesUntranslated = true;
    try {
      return stage(frame);
    } finally {
      exchange.seesUntranslated = false;
    }
  };
}

function areFrames(made: unknown): made is readonly Frame[] {
  if (!Array.isArray(made)) return false;
  for (const each of made) if (!(each instanceof Frame)) return false;
  return true;
}
