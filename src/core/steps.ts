interface LifeStepEntry {
  /** What the engine does at this step. */
  does: string;
  /** What happens, besides the response to the client, when a request ends here; absent: none does. */
  ending?: string;
}

/**
 * The steps of a request's life at which it can end, in order: two of the engine's own, then each plugin phase with the engine's
 * work around it. The table of refusals names the step for each.
 */
export const STEPS = {
  head: {
    does: "The head is checked, before anything of it is believed.",
    ending:
      "No exchange has begun: no row of the ledger; a line of the log and a count of `gateway_refused_total`. `overloaded` also comes after `access`, where a key has too many requests under way, and has its row there.",
  },
  path: { does: "The path names chain and protocol; the exchange begins.", ending: "As before." },
  access: {
    does: "Who asks, and what may not come in. Then it waits for its turn.",
    ending: "No byte of the body was read. From here on each has its row.",
  },
  request: {
    does: "The body is read under a cap and a minimum rate, and scanned once.",
    ending: "What still comes of the body is read for a moment, so that the client hears why.",
  },
  route: {
    does: "The model becomes targets, best first; what could be spent is reserved; names of objects are held against their owners.",
    ending: "Nothing was sent; what was reserved is given back.",
  },
  send: {
    does: "For each target, while no byte has reached the client: credential, address and translation, then it is forwarded.",
    ending: "Comes after the last try and target. Health and credentials hear of each.",
  },
  failed: {
    does: "The answer of an attempt of which the client gets nothing is given up; the next attempt, or the gateway's own words, follow.",
  },
  response: {
    does: "The answer's head, then its frames through the plugins' stages, to the client as they come.",
    ending:
      "A stream ends with its protocol's error event and is cut (one that is a JSON array ends); a whole answer is cut. What was spent is estimated as `cut` says.",
  },
  done: {
    does: "Exactly once, however it ended: what was reserved is settled, one row of the ledger, one line of the log.",
    ending:
      "At any time: the provider's connection is closed at once (but for `cut: drain`, and for 250 ms where only the usage of a stream is missing), what was reserved settled, the row written.",
  },
} as const satisfies Record<string, LifeStepEntry>;

export type LifeStep = keyof typeof STEPS;
