/** One side of an exchange as it was kept: without secrets, and without what is beyond its size. */
interface RecordedMessage {
  /** Method and address of a request, status of an answer. */
  readonly first: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
  /** Text, or base64 of what is none. */
  readonly body: string;
  readonly encoding: "text" | "base64";
  /** Of the whole body, as far as it came. */
  readonly bytes: number;
  /** Whether the body is not all of that. */
  readonly cut: boolean;
}

/** One try at one target. */
interface RecordedAttempt {
  readonly target: string;
  readonly protocol: string;
  readonly status?: number;
  /** The code of what went wrong. */
  readonly error?: string;
  readonly request: RecordedMessage;
  /** As the provider gave it; of an attempt that failed as much as came in a second, of a stream its first event. */
  readonly answer?: RecordedMessage;
}

/** An exchange as it was kept: as the client and as the providers saw it. */
export interface Recorded {
  readonly id: string;
  /** Unix milliseconds. */
  readonly time: number;
  readonly outcome: string;
  readonly status: number;
  /** What went wrong, in the gateway's words; a refusal is told to the client so, in its protocol. */
  readonly error?: { readonly code: string; readonly message: string };
  /** The plugin that answered in a provider's place. */
  readonly answerer?: string;
  readonly request: RecordedMessage;
  readonly answer?: RecordedMessage;
  readonly attempts: readonly RecordedAttempt[];
}
