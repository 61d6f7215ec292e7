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
export const LIFE_STEPS = {
  head: {
    does: "The request's head is checked before anything else uses it.",
    ending:
      "No exchange has begun, so there is no ledger row: only a log line and a count in `gateway_refused_total`. `overloaded` can also occur after `access`, when a key has too many requests running, or while the body arrives, when bodies take too much memory, or in the middle of an answer, when buffered answers do; then there is a row.",
  },
  path: { does: "The path determines chain and protocol; the exchange begins.", ending: "As for `head`." },
  access: {
    does: "The client is authenticated, and what it may not use is refused. Then the request waits in the overload queue if there is no room.",
    ending: "No byte of the body was read. From this step on each request has a ledger row.",
  },
  request: {
    does: "The body is read under a cap and a minimum rate, and scanned once.",
    ending: "The rest of the body is read and discarded for a moment, so that the client can receive the error.",
  },
  route: {
    does: "The model is resolved to targets, best first; the maximum tokens and cost are reserved; object ids are checked against their owners.",
    ending: "Nothing was sent to a provider; the reservation is released.",
  },
  send: {
    does: "For each target, while no byte has reached the client: credential, address and translation are determined, then the request is forwarded.",
    ending: "Ends here after the last attempt. The health of targets and credentials is updated after each attempt.",
  },
  failed: {
    does: "The response of an attempt that the client does not get is discarded; the next attempt, or the gateway's own error, follows.",
  },
  response: {
    does: "The response's head is sent to the client, then its frames, through the plugins' stages, as they arrive.",
    ending:
      "A stream ends with its protocol's error event and the connection is closed (a JSON array is closed properly); a whole response is cut off, or becomes that error where none of it has been sent. Its usage is estimated as the option `cut` of `usage` says.",
  },
  done: {
    does: "Runs exactly once, however the request ended: the reservation is settled, and one ledger row and one log line are written.",
    ending:
      "Can end here at any time: the provider's connection is closed at once (except with `cut: drain`, and for 250 ms when only a stream's usage is missing), the reservation is settled and the row written.",
  },
} as const satisfies Record<string, LifeStepEntry>;

export type LifeStep = keyof typeof LIFE_STEPS;
