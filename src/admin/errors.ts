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
} as const;

/** What the admin side answers instead of what was asked for. */
export class AdminError extends Error {
  constructor(
    readonly code: keyof typeof STATUS,
    message: string,
  ) {
    super(message);
  }

  get status(): number {
    return STATUS[this.code];
  }
}
