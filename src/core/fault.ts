import { type ErrorKind, kindOf } from "./errors.ts";

/** What went wrong, as far as a protocol has words for it. A GatewayError is one. */
export interface Fault {
  readonly status: number;
  readonly kind: ErrorKind;
  readonly code: string;
  /** The code is a plugin's own: it tells more than a protocol's word for the kind. */
  readonly own?: boolean | undefined;
  readonly message: string;
  readonly param?: string | undefined;
  /** Seconds after which asking again makes sense. */
  readonly retryAfter?: number | undefined;
  /** The provider's own code, where the fault passes from one protocol to another. */
  readonly ownCode?: string | undefined;
  /** What the gateway itself tells programs, in the words of the client's protocol. */
  readonly details?: Readonly<Record<string, unknown>> | undefined;
}

/** The words one protocol has for kinds of faults; a code that is not listed stays the gateway's own, a plugin's own always. */
export interface ErrorWords {
  readonly type: Readonly<Record<ErrorKind, string>>;
  readonly code: Readonly<Partial<Record<ErrorKind, string>>>;
}

/** The error object `{message, type, param, code}` that several protocols nest under `error`. */
export function errorObject(fault: Fault, words: ErrorWords) {
  return {
    message: fault.message,
    type: words.type[fault.kind],
    param: fault.param ?? null,
    code: fault.own ? fault.code : (words.code[fault.kind] ?? fault.ownCode ?? fault.code),
  };
}

/** The fault that an HTTP status stands for. */
export function faultOf(status: number, message: string): Fault {
  const kind = kindOf(status);
  return { status, kind, code: kind, message };
}
