/** One message of an exchange as it was stored: without secrets, and cut to the size limit. */
interface RecordedMessage {
  /** Method and URL of a request, or status of a response. */
  readonly first: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
  /** Text, or base64 of a body that is not text. */
  readonly body: string;
  readonly encoding: "text" | "base64";
  /** Bytes of the whole body, as far as it arrived. */
  readonly bytes: number;
  /** Whether `body` is incomplete. */
  readonly cut: boolean;
}

/** One try at one target. */
interface RecordedAttempt {
  readonly target: string;
  readonly protocol: string;
  readonly status?: number;
  /** The code of the error. */
  readonly error?: string;
  readonly request: RecordedMessage;
  /** The provider's original response; of a failed attempt as much as arrived within a second, of a stream the first event. */
  readonly answer?: RecordedMessage;
}

/** An exchange as it was stored: as the client and the providers saw it. */
export interface RecordedExchange {
  readonly id: string;
  /** Unix milliseconds. */
  readonly time: number;
  readonly outcome: string;
  readonly status: number;
  /** The error in the gateway's words; the client received it in its protocol. */
  readonly error?: { readonly code: string; readonly message: string };
  /** The plugin that responded in place of a provider. */
  readonly answerer?: string;
  readonly request: RecordedMessage;
  readonly answer?: RecordedMessage;
  readonly attempts: readonly RecordedAttempt[];
}
