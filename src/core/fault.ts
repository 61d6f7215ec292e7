import { type ErrorKind, errorKindOf } from "./errors.ts";

/** An error in the terms that a protocol can express. A GatewayError is one. */
export interface Fault {
  readonly status: number;
  readonly kind: ErrorKind;
  readonly code: string;
  /** The code is a plugin's own: it is more specific than a protocol's code for the kind. */
  readonly isPluginCode?: boolean | undefined;
  readonly message: string;
  readonly param?: string | undefined;
  /** Seconds after which a retry makes sense. */
  readonly retryAfter?: number | undefined;
  /** The provider's own code, where the error is translated from one protocol to another. */
  readonly providerCode?: string | undefined;
  /** Machine-readable details from the gateway itself, in the client's protocol. */
  readonly details?: Readonly<Record<string, unknown>> | undefined;
}

/**
 * One protocol's names for kinds of errors; for a kind without a name the gateway's own code is used, and a plugin's own always.
 */
export interface ErrorNames {
  readonly type: Readonly<Record<ErrorKind, string>>;
  readonly code: Readonly<Partial<Record<ErrorKind, string>>>;
}

/** The error object `{message, type, param, code}` that several protocols nest under `error`. */
export function errorObject(fault: Fault, names: ErrorNames) {
  return {
    message: fault.message,
    type: names.type[fault.kind],
    param: fault.param ?? null,
    code: fault.isPluginCode ? fault.code : (names.code[fault.kind] ?? fault.providerCode ?? fault.code),
  };
}

/** Returns the fault that an HTTP status stands for. */
export function statusFault(status: number, message: string): Fault {
  const kind = errorKindOf(status);
  return { status, kind, code: kind, message };
}
