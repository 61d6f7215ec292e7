import { isUtf8 } from "node:buffer";
import { type RecordedExchange, Redactor } from "model-gateway";
import type { RawExchange, RawMessage, RecordWorkerOptions } from "./messages.ts";

/** Headers that hold only credentials: of any gateway, proxy or vendor, as far as their names say it. */
const CREDENTIALS =
  /(?<!idempotency-|websocket-)(?:auth|authorization|authentication|cookie|token|secret|passw(?:or)?d|passphrase|key|-vk|credentials?|jwt|assertion|service-account-json|portkey-config)$/i;
/** Members of JSON that hold a credential of any form: those of a client's own tools and servers, too. */
const CREDENTIAL_MEMBERS =
  /("[\w-]{0,64}(?:authorization|passw(?:or)?d|passphrase|secret|credentials?|(?:api|access|private|secret|virtual)[_-]?key|(?:authorization|access|refresh|auth|session|bearer|api|id|ad|hf|git(?:hub|lab))[_-]?token)"\s*:\s*)"(?:[^"\\]|\\.)*"/gi;
/** The headers that a tool sends, and objects of credentials, with their values. */
const HEADER_MEMBERS = /"(?:headers|[\w:-]{0,64}credentials|secrets)"\s*:\s*\{(?:[^{}"]|"(?:[^"\\]|\\.)*")*\}/g;
const VALUES = /(:\s*)"(?:[^"\\]|\\.)*"/g;
/** Bytes processed beyond those that are kept, so that a secret at the edge is seen whole. */
export const MARGIN = 8192;

/** Removes secrets: known values exactly; everything shaped like a key; and matches of the operator's patterns. */
export class ExchangeRedactor {
  private readonly redactor: Redactor;
  private readonly patterns: readonly RegExp[];

  /** @param secrets keys and credentials of this exchange */
  constructor(
    private readonly options: Pick<RecordWorkerOptions, "body" | "patterns">,
    secrets: readonly string[],
  ) {
    this.redactor = new Redactor(secrets);
    this.patterns = options.patterns.map((source) => new RegExp(source, "giu"));
  }

  redact({ request, answer, attempts, error, ...rest }: RawExchange): RecordedExchange {
    return {
      ...rest,
      ...(error && { error: { code: error.code, message: this.text(error.message) } }),
      request: this.message(request),
      ...(answer && { answer: this.message(answer) }),
      attempts: attempts.map(({ request, answer, ...attempt }) => ({
        ...attempt,
        request: this.message(request),
        ...(answer && { answer: this.message(answer) }),
      })),
    };
  }

  private message({ first, headers, body, bytes, part }: RawMessage): RecordedExchange["request"] {
    const { body: most } = this.options;
    const raw = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
    // A character at the edge may be cut.
    const isText = [0, 1, 2, 3].some((end) => isUtf8(raw.subarray(0, Math.max(0, raw.length - end))));
    const encoding = isText ? "utf8" : "latin1";
    const clean = Buffer.from(this.text(withoutCredentials(raw.toString(encoding))), encoding);
    // Removed secrets may have moved the end of the processed bytes, where a secret may be cut, to before the end of the kept
    // ones.
    const known = bytes > most + MARGIN ? lastWordEnd(clean) : clean.length;
    const kept = clean.subarray(0, bytes > most ? Math.min(most, known) : clean.length);
    return {
      first: this.text(first),
      headers: headers.flatMap(([name, value]) => (CREDENTIALS.test(name) ? [] : [[name, this.text(value)] as const])),
      body: kept.toString(isText ? "utf8" : "base64"),
      encoding: isText ? "text" : "base64",
      bytes,
      cut: bytes > most || part === true,
    };
  }

  private text(text: string): string {
    return this.patterns.reduce((clean, pattern) => clean.replaceAll(pattern, "***"), this.redactor.text(text));
  }
}

/** Returns a body without the values of members that hold credentials. */
const withoutCredentials = (body: string): string =>
  body.replace(CREDENTIAL_MEMBERS, '$1"***"').replace(HEADER_MEMBERS, (headers) => headers.replace(VALUES, '$1"***"'));

/** Returns the start of the last word, which may be the beginning of a secret; at most one secret's length from the end. */
function lastWordEnd(bytes: Buffer): number {
  const first = Math.max(0, bytes.length - MARGIN);
  let at = bytes.length;
  while (at > first && !WORD_ENDS.has(bytes[at - 1] as number)) at--;
  return at;
}

/** Characters around keys in JSON, HTML and plain text, and the character that replaces a whole key. */
const WORD_ENDS: ReadonlySet<number> = new Set(Buffer.from(" \t\r\n\"'`<>()[]{},;*"));
