import { setImmediate as nextTurn } from "node:timers/promises";
import type { Frame } from "../wire/frame.ts";
import { joinPieces } from "../wire/pieces.ts";
import { splitInGroups } from "./answer-frames.ts";
import { awaitedLater } from "./awaited-later.ts";
import type { Head } from "./head.ts";
import { runStages, type Stage } from "./stage.ts";

/** Frames after which other work gets a turn: stages look at each. */
const FRAMES_A_TURN = 4096;

/**
 * Makes `head.readBody` return the response as these stages leave it: all frames are then passed through them, in several turns
 * of the event loop where there are many, and one stage that emits the result replaces them. Of a response that breaks off they see
 * what arrived, as it may have to be paid.
 * @param stages of the plugins so far; more may follow
 */
export function readThroughStages(head: Head, stages: Stage[]): void {
  const { readBody } = head;
  if (!readBody) return;
  const readThrough = async (limit: number): Promise<Buffer> => {
    const bytes = await readBody(limit).catch(async (thrown: unknown) => {
      await showReceived(head, stages);
      throw thrown;
    });
    const frames: Frame[] = [];
    head.isReading = true;
    try {
      await runAll(stages, splitInGroups(bytes, (head.translated ?? head).framing, head.maxFrame), frames);
    } catch (thrown) {
      // They have seen these frames: a plugin that goes on all the same must not make them see the response again.
      const fail: Stage = () => {
        throw thrown;
      };
      stages.splice(0, stages.length, fail);
      throw thrown;
    } finally {
      head.isReading = false;
    }
    stages.splice(0, stages.length, (frame) => (frame.kind === "end" ? frames : []));
    return joinPieces(frames.map((frame) => frame.bytes).filter((piece) => piece.length > 0));
  };
  const readLater = (limit: number) => awaitedLater(readThrough(limit));
  head.readBody = readLater;
}

/** Passes what has arrived of a response that broke off through stages, once; nobody gets what they make of it. */
async function showReceived(head: Head, stages: readonly Stage[]): Promise<void> {
  const { received } = head;
  head.received = undefined;
  if (!received) return;
  try {
    await runAll(stages, [received()], []);
  } catch {
    // The reason why it broke off is reported, not what that did to a stage.
  }
}

/** Passes all frames through stages, which look at each: after many of them other work gets a turn. */
async function runAll(stages: readonly Stage[], groups: Iterable<readonly Frame[]>, out: Frame[]): Promise<void> {
  let n = 0;
  for (const group of groups)
    for (const frame of group) {
      if (++n % FRAMES_A_TURN === 0) await nextTurn();
      runStages(stages, frame, out);
    }
}
