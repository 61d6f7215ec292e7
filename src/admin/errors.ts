import type { Problem } from "../config/problems.ts";

const STATUS = {
  bad_request: 400,
  signed_out: 401,
  not_allowed: 403,
  not_found: 404,
  method_not_allowed: 405,
  conflict: 409,
  too_large: 413,
  wrong_host: 421,
  refused: 422,
  too_many: 429,
  failed: 500,
  unavailable: 503,
} as const;

export const ADMIN_ERROR_CODES = Object.keys(STATUS) as (keyof typeof STATUS)[];

interface AdminErrorDetails {
  /** The allowed methods, for the `allow` header of a 405. */
  allow?: readonly string[];
  /** The cause, for the log only. */
  cause?: unknown;
  /** Seconds until a retry may succeed. */
  retryAfter?: number;
  /** The problems of gateway.yaml. */
  problems?: readonly Problem[] | undefined;
}

/** An error response of the admin side. */
export class AdminError extends Error {
  readonly allow: AdminErrorDetails["allow"];
  readonly problems: AdminErrorDetails["problems"];
  readonly retryAfter: AdminErrorDetails["retryAfter"];

  constructor(
    readonly code: keyof typeof STATUS,
    message: string,
    { allow, cause, problems, retryAfter }: AdminErrorDetails = {},
  ) {
    super(message, { cause });
    this.allow = allow;
    this.problems = problems;
    this.retryAfter = retryAfter;
  }

  get status(): number {
    return STATUS[this.code];
  }
}
