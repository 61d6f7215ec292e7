/**
 * The parser of our HTTP/1.1 client and node's own read the same bytes: responses of every kind, right and wrong, whole and
 * in pieces. What the two make of them must be the same, but for what stands in the table below with the RFC's section.
 */
import t from "tap";
import { ResponseParser } from "../../src/upstream/http1/response-parser.ts";
import { type ReadResponse, readByNode } from "../support/node-parser.ts";
import { type OddResponse, oddResponse, oddSeeds } from "../support/odd-responses.ts";

/** How many responses are tried; each has its number. */
const RESPONSES = Number(process.env["FUZZ_RESPONSES"] ?? 20_000);
/** Responses that are read at the same time. */
const BATCH = 200;

function readByUs(method: string, pieces: readonly Buffer[]): ReadResponse {
  const seen: ReadResponse = {
    ...{ status: 0, headers: [], body: Buffer.alloc(0), whole: false, reusable: false, error: undefined },
  };
  const body: Buffer[] = [];
  const parser = new ResponseParser({
    onHead({ status, headers }) {
      seen.status = status;
      seen.headers = headers;
    },
    onBody: (bytes) => void body.push(Buffer.from(bytes)),
    onEnd() {
      seen.whole = true;
    },
  });
  parser.expect(method);
  let behind = 0;
  try {
    for (const piece of pieces) behind += piece.length - (seen.whole ? 0 : parser.push(piece));
    if (!seen.whole) parser.close();
  } catch (error) {
    seen.error = (error as { code: string }).code;
  }
  const reusable = seen.whole && parser.reusable && behind === 0;
  return { ...seen, body: Buffer.concat(body), reusable };
}

const ONE_HOP =
  /^(?:connection|http2-settings|keep-alive|proxy-authenticate|proxy-authorization|proxy-connection|te|trailer|transfer-encoding|upgrade)$/i;

/** Values of a field, with commas between them. */
const values = (headers: readonly string[], name: RegExp): string =>
  headers.filter((_, i) => i % 2 === 1 && name.test(headers[i - 1] as string)).join(",");

/** What is left of a head for the client. */
function endToEnd(headers: readonly string[]): string[] {
  const named = values(headers, /^(?:proxy-)?connection$/i)
    .split(",")
    .map((word) => word.trim().toLowerCase())
    .filter((word) => word !== "close" && word !== "keep-alive");
  const passes = (name: string) => !ONE_HOP.test(name) && !named.includes(name.toLowerCase());
  return headers.filter((_, i) => passes(headers[i - (i % 2)] as string));
}

type Kind = "only node takes it" | "only we take it" | "other content" | "only node keeps" | "only we keep";

/** What the two make of a response differently; undefined: nothing. */
function difference(us: ReadResponse, node: ReadResponse): Kind | undefined {
  if (us.status === 0 || node.status === 0) {
    if (us.status === node.status) return undefined;
    return us.status === 0 ? "only node takes it" : "only we take it";
  }
  if (us.status !== node.status || JSON.stringify(us.headers) !== JSON.stringify(endToEnd(node.headers)))
    return "other content";
  if (us.whole !== node.whole) return us.whole ? "only we take it" : "only node takes it";
  const length = us.whole ? Number.POSITIVE_INFINITY : Math.min(us.body.length, node.body.length);
  if (!us.body.subarray(0, length).equals(node.body.subarray(0, length))) return "other content";
  if (us.reusable === node.reusable) return undefined;
  return us.reusable ? "only we keep" : "only node keeps";
}

interface Known {
  /** undefined: any. */
  kind: Kind | undefined;
  section: string;
  why: string;
  when(odd: OddResponse, us: ReadResponse, node: ReadResponse): boolean;
  /** The response without it, which must mean the same to both. */
  mended?(text: string): string;
}

const coding = (node: ReadResponse): string => values(node.headers, /^transfer-encoding$/i).toLowerCase();
const connection = (node: ReadResponse): string => values(node.headers, /^(?:proxy-)?connection$/i).toLowerCase();
const isOld = ({ text }: OddResponse): boolean => /^HTTP\/1\.0 /m.test(heads(text));

/** The final head and those of the interim responses before it. */
function heads(text: string): string {
  for (let at = 0; ; ) {
    const end = text.indexOf("\r\n\r\n", at);
    if (end < 0) return text;
    if (!/^HTTP\/1\.[01] 1\d\d/.test(text.slice(at, end))) return text.slice(0, end);
    at = end + 4;
  }
}

/** Control characters besides tabs and line ends. */
const hasControls = (text: string): boolean => /[^\t\n\r\x20-\x7e\x80-\xff]/.test(text);

/** All that the two may read differently. */
const KNOWN: readonly Known[] = [
  {
    kind: "only node takes it",
    section: "RFC 9112 §6.1",
    why: "codings besides chunked were not asked for, and chunked twice is an error",
    when: (_, us, node) => us.error === "RESPONSE_CODING_UNKNOWN" && coding(node) !== "chunked",
  },
  {
    kind: "only node takes it",
    section: "RFC 9112 §2.3",
    why: "versions besides 1.0 and 1.1 may be framed in other ways",
    when: ({ text }, us) => us.error === "RESPONSE_NOT_HTTP" && /^HTTP\/(?!1\.[01])\d\.\d /m.test(heads(text)),
  },
  {
    kind: "only node takes it",
    section: "RFC 9112 §2.3",
    why: "other protocols are not HTTP",
    when: ({ text }, us) => us.error === "RESPONSE_NOT_HTTP" && /^(?:RTSP|ICE)\/1\.\d /m.test(heads(text)),
  },
  {
    kind: "only node takes it",
    section: "RFC 9112 §2.2",
    why: "only a request may have blank lines in front",
    when: ({ text }, us) =>
      /^RESPONSE_(?:NOT_HTTP|HEADER_INVALID)$/.test(us.error ?? "") && /(?:^|\r\n\r\n)[\r\n]+HTTP\//.test(text),
  },
  {
    kind: "only node takes it",
    section: "RFC 9110 §15",
    why: "a status is a number from 100 to 599",
    when: ({ text }, us) => us.error === "RESPONSE_NOT_HTTP" && /^HTTP\/1\.[01] [06-9]\d\d/m.test(heads(text)),
  },
  {
    kind: "only node takes it",
    section: "RFC 9112 §4, RFC 9110 §5.5",
    why: "control characters stand neither in a reason nor in a value",
    when: ({ text }, us) => us.error === "RESPONSE_NOT_HTTP" && hasControls(heads(text)),
  },
  {
    kind: "only node takes it",
    section: "RFC 9110 §15.2.2",
    why: "nothing was asked that 101 could answer",
    when: (_, us) => us.error === "RESPONSE_UPGRADED",
  },
  {
    kind: "only node takes it",
    section: "RFC 9110 §15.2",
    why: "an interim response has no body, and one that speaks of one may have it all the same",
    when: ({ text }, us) =>
      us.status === 0 &&
      /^RESPONSE_(?:INTERIM|CODING_UNKNOWN|LENGTH_INVALID|FRAMED_TWICE)$/.test(us.error ?? "") &&
      /^HTTP\/1\.[01] 1\d\d/.test(text),
  },
  {
    kind: "only node takes it",
    section: "RFC 9110 §5.4",
    why: "more than a thousand fields are too many",
    when: ({ text }, us) =>
      /^RESPONSE_(?:HEADER|TRAILER)_INVALID$/.test(us.error ?? "") && text.split("\n").length > 1000,
  },
  {
    kind: "only node takes it",
    section: "RFC 9110 §8.6",
    why: "a length has fifteen digits at most",
    when: (_, us, node) =>
      us.error === "RESPONSE_LENGTH_INVALID" && /^\d{16,}$/.test(values(node.headers, /^content-length$/i)),
  },
  {
    kind: "only node takes it",
    section: "RFC 9112 §7.1",
    why: "a chunk's size has twelve digits at most",
    when: ({ text }, us) => us.error === "RESPONSE_CHUNK_INVALID" && /\n[0-9a-f]{13,}/i.test(text),
  },
  {
    kind: "only node takes it",
    section: "RFC 9110 §6.5.1",
    why: "trailers say nothing of framing, nor of one hop",
    when: ({ text }, us) =>
      us.error === "RESPONSE_TRAILER_INVALID" &&
      /\n0+(?:;.*)?\r\n(?:.+\r\n)*(?:transfer-encoding|(?:proxy-)?connection|keep-alive|te|trailer|upgrade|content-length):/i.test(
        text,
      ),
  },
  {
    kind: "only we take it",
    section: "RFC 9112 §7.1.1",
    why: "blanks may stand around the semicolon before an extension",
    when: ({ text }, _, node) => node.error === "HPE_INVALID_CHUNK_SIZE" && /\n[0-9a-f]+[ \t]+;/i.test(text),
    mended: (text) => text.replaceAll(/(\n[0-9a-f]+)[ \t]+;/gi, "$1;"),
  },
  {
    kind: "only we take it",
    section: "RFC 9112 §7.1.1",
    why: "an extension that is not known is passed over, whatever it says up to the line's end",
    when: ({ text }, _, node) => node.error === "HPE_STRICT" && /\n[0-9a-f]+[ \t]*;/i.test(text),
    mended: (text) => text.replaceAll(/(\n[0-9a-f]+)[ \t]*;[^\r\n]*/gi, "$1"),
  },
  {
    kind: "only we take it",
    section: "RFC 9112 §9.6",
    why: "close in an interim response closes after the final one",
    when: (_, us, node) => node.error === "HPE_CLOSED_CONNECTION" && !us.reusable,
  },
  {
    kind: "only node keeps",
    section: "RFC 9112 §9.3",
    why: "close comes before keep-alive, in HTTP/1.0 too",
    when: (odd, _, node) => isOld(odd) && /\bclose\b/.test(connection(node)),
  },
  {
    kind: "only node keeps",
    section: "RFC 9112 §6.1",
    why: "who sends chunks by HTTP/1.0 may have passed them on without knowing them",
    when: (odd, _, node) => isOld(odd) && coding(node) === "chunked",
  },
  {
    kind: "only node keeps",
    section: "RFC 9112 §6.3",
    why: "204 and 304 have no body, and one that speaks of one may have it all the same",
    when: (_, us, node) =>
      (us.status === 204 || us.status === 304) &&
      (coding(node) !== "" || values(node.headers, /^content-length$/i) > "0"),
  },
  {
    kind: "only node keeps",
    section: "RFC 9112 §9.2",
    why: "what comes behind a response was asked for by nobody",
    when: ({ pieces, text, method }) => !readByUs(method, pieces).reusable && behind(method, text) > 0,
  },
  {
    kind: "only we keep",
    section: "RFC 9112 §6.3",
    why: "a response to HEAD ends with its head, also where that has no length",
    when: ({ method }, _, node) =>
      method === "HEAD" && coding(node) === "" && values(node.headers, /^content-length$/i) === "",
  },
  {
    kind: undefined,
    section: "RFC 9110 §5.5",
    why: "a tab behind a value does not belong to it",
    when: ({ text }) => /transfer-encoding:[ \t]*chunked *\t/i.test(heads(text)),
    mended: (text) => text.replaceAll(/(transfer-encoding:[ \t]*chunked)[ \t]+/gi, "$1"),
  },
];

/** Bytes behind a response. */
function behind(method: string, text: string): number {
  const bytes = Buffer.from(text, "latin1");
  let whole = false;
  const parser = new ResponseParser({
    onHead() {},
    onBody() {},
    onEnd() {
      whole = true;
    },
  });
  parser.expect(method);
  const taken = parser.push(bytes);
  return whole ? bytes.length - taken : 0;
}

const shown = ({ method, text }: OddResponse, us: ReadResponse, node: ReadResponse, kind: string): string =>
  `${kind}: ${method} ${JSON.stringify(text.slice(0, 400))}\n  we: ${summary(us)}\n  node: ${summary(node)}`;
const summary = ({ body, ...rest }: ReadResponse): string => JSON.stringify({ ...rest, body: body.toString("latin1") });

/** Reads a response both ways. What is known of the difference is added to `met`; answers how it was read that is not known. */
async function compare(odd: OddResponse, met: Set<Known>): Promise<{ us: ReadResponse; fault: string | undefined }> {
  const us = readByUs(odd.method, odd.pieces);
  const node = await readByNode(odd.method, odd.pieces);
  const kind = difference(us, node);
  if (kind === undefined) return { us, fault: undefined };
  const known = KNOWN.find((each) => (each.kind ?? kind) === kind && each.when(odd, us, node));
  if (!known) return { us, fault: shown(odd, us, node, kind) };
  met.add(known);
  if (!known.mended) return { us, fault: undefined };
  const text = known.mended(odd.text);
  return { us, fault: (await compare({ ...odd, text, pieces: [Buffer.from(text, "latin1")] }, met)).fault };
}

t.test(
  `${RESPONSES} responses have the same meaning to node's parser and ours, except for known differences`,
  async (t) => {
    const seeds = oddSeeds();
    const faults: string[] = [];
    const met = new Set<Known>();
    let taken = 0;
    for (let first = 0; first < RESPONSES; first += BATCH) {
      const numbers = Array.from({ length: Math.min(BATCH, RESPONSES - first) }, (_, i) => first + i);
      await Promise.all(
        numbers.map(async (number) => {
          const { us, fault } = await compare(oddResponse(seeds, number), met);
          if (us.whole) taken++;
          if (fault !== undefined) faults.push(`${number}, ${fault}`);
        }),
      );
    }
    t.equal(faults.length, 0, faults.slice(0, 5).join("\n"));
    t.ok(taken > RESPONSES / 4, `${taken} of them are responses that are accepted completely`);
    const unmet = KNOWN.filter((each) => !met.has(each)).map(({ section, why }) => `${section}: ${why}`);
    t.same(unmet, [], "every known difference occurred");
  },
);

t.test("a response has the same meaning wherever it is split", (t) => {
  const seeds = oddSeeds();
  const faults: string[] = [];
  for (let number = 0; number < RESPONSES; number++) {
    const { method, text, pieces } = oddResponse(seeds, number);
    const { error, ...whole } = readByUs(method, [Buffer.from(text, "latin1")]);
    const cut = readByUs(method, pieces);
    // A fault may be noticed earlier in pieces, in other words.
    const same = (error === undefined) === (cut.error === undefined);
    if (!same || JSON.stringify({ ...cut, error: 0 }) !== JSON.stringify({ ...whole, error: 0 }))
      faults.push(`${number}: ${JSON.stringify(text)}`);
  }
  t.equal(faults.length, 0, faults.slice(0, 5).join("\n"));
  t.end();
});
