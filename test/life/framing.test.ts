import t, { type Test } from "tap";
import { KEY, startGateway } from "../support/gateway.ts";
import { gathered } from "../support/gathered.ts";
import { entrance, WAYS } from "../support/nginx.ts";
import { each, send, type Talk, vectors } from "../support/raw.ts";
import { httpUpstream, type SeenRequest } from "../support/upstream.ts";

interface Vector {
  id: string;
  expect: "reject" | "either" | "one-upstream-request" | "scrubbed" | "stripped" | "no-effect";
  why: string;
  raw_b64: string;
}

/** A vector as it is sent; `bare` has no key, so that it can only be refused. */
interface Letter extends Vector {
  form: "bare" | "keyed" | "question";
  /** Its id and form, which stands in its body. */
  name: string;
  bytes: string;
}

const all = vectors<Vector[]>("http-framing-vectors.json");

/** Bytes of the body that letters carry; 0x80, where a length is hexadecimal. */
const SIZE = 128;
const bodyOf = (name: string): string => `{"model":"any","user":"${name}"`.padEnd(SIZE - 1).concat("}");
/** The same as the provider gets it: only the model's name differs. */
const sentOf = (name: string): string => bodyOf(name).replace('"any"', '"vendor"');

/** How a length of 128 is spelled where 2 does not just stand for it. */
const LENGTHS: Record<string, string> = {
  3: "129",
  "0x2": "0x80",
  "1_0": "12_8",
  "18446744073709551618": String(2n ** 64n + BigInt(SIZE)),
};

/** What nginx makes well-formed before the gateway sees it, and how. The provider must get the very body even then. */
const MENDED: Record<string, string> = {
  "te-hide-lf-09": "a bare LF ends a line, and what leaves is framed anew",
  "te-hide-lf-20": "a bare LF ends a line, and what leaves is framed anew",
  "te-hide-lf-a0": "a bare LF ends a line, and what leaves is framed anew",
  "te-hide-lf-ff": "a bare LF ends a line, and what leaves is framed anew",
  "bare-lf-request": "a bare LF ends a line, and what leaves is framed anew",
  "chunk-lf": "a bare LF ends a chunk's line, and the body leaves with a content-length",
  "chunk-lf-term": "a bare LF ends a chunk's line, and the body leaves with a content-length",
  "chunk-sp": "a space behind a chunk's size is skipped, and the body leaves with a content-length",
  "chunk-ext-bomb": "chunk extensions are thrown away, and the body leaves with a content-length",
  "te-val-post-0d": "a second CR before the LF belongs to the line's end",
  "no-colon": "a line without a colon is dropped",
  "host-at": "a bare proxy_pass sends a Host of its own",
  "host-port-text": "a bare proxy_pass sends a Host of its own",
  "expect-odd": "Expect is nginx's own business and is dropped",
  "version-12": "a bare proxy_pass speaks HTTP/1.0 to the gateway",
};

/** Codes of a refusal that looked at nothing but the head and the framing. */
const FRAMING = /"code":"(?:bad_request|bad_target|headers_too_large|target_too_long|method_not_allowed)"/;

/** What a provider may see of a request that was let in. */
const UPSTREAM_HEADERS = ["host", "connection", "content-type", "content-length", "authorization", "accept-encoding"];
/** What none of the vectors may bring there. */
const NEVER = /CANARY|admin|evil|smuggled|1\.2\.3\.4|http2-settings|test-key/i;

function letters(vector: Vector): Letter[] {
  const bare = Buffer.from(vector.raw_b64, "base64").toString("latin1");
  const forms = {
    bare: () => bare,
    keyed: (name: string) => keyed(name, bare),
    question: (name: string) => question(name, bare),
  };
  return Object.entries(forms).flatMap(([form, write]) => {
    const name = `${vector.id}:${form}`;
    const bytes = write(name);
    return bytes === undefined ? [] : [{ ...vector, form: form as Letter["form"], name, bytes }];
  });
}

/** With our key, and where it has a body with one that a provider would get: a gateway that does not refuse it is seen. */
function keyed(name: string, bare: string): string {
  const key = /authorization/i.test(bare) ? `X-Api-Key: ${KEY}` : `Authorization: Bearer ${KEY}`;
  const [, line = "", ending = "", rest = ""] = /^([^\n]*?)(\r?\n)([\s\S]*)$/.exec(bare) ?? [];
  const signed = `${line}${ending}${key}${ending}Content-Type: application/json${ending}${rest}`;
  return line.startsWith("POST") ? filled(signed, bodyOf(name)) : signed;
}

/** Puts a body where the vector has `{}` or nothing, and its length, spelled as oddly, where the vector says 2. */
function filled(bytes: string, body: string): string {
  const [, head = "", blank = "", rest = ""] = /^([\s\S]*?)(\r\n\r\n|\n\n)([\s\S]*)$/.exec(bytes) ?? [];
  const lengths = head.replaceAll(
    /(?<=^Content-Length: )[^\r\n]*/gm,
    (value) => LENGTHS[value] ?? value.replaceAll(/2(?!\d)/g, String(SIZE)),
  );
  const chunks = rest
    .replace(/^0\r\n\r\n$/, `80\r\n${body}\r\n0\r\n\r\n`)
    .replace(/^1_0\r\n/, "8_0\r\n")
    .replace(/^([-+]|0x|F*)2(?=[ ;\r\n])/, (_, sign: string) => `${sign}80`)
    .replace("{}", body);
  return lengths + blank + chunks;
}

/** What concerns a head alone is also asked with a question's head: a list of models never goes to a provider. */
function question(name: string, bare: string): string | undefined {
  const start = /^GET \/v1\/models(?= HTTP)/;
  if (!start.test(bare) || /content-length/i.test(bare)) return undefined;
  const asked = keyed(name, bare).replace(start, "POST /v1/chat/completions");
  return asked.replace(/(\r?\n)\r?\n/, (blank, end: string) => `${end}Content-Length: ${SIZE}${blank}${bodyOf(name)}`);
}

function judge(t: Test, letter: Letter, talk: Talk, sent: number, mended: boolean): void {
  const { name, form, expect } = letter;
  const why = `${name}: ${expect} (${letter.why}), got ${talk.statuses.join(", ") || "nothing"}`;
  const admitted = talk.statuses.some((status) => status < 400);
  t.ok(sent <= (admitted ? 1 : 0), `${why} and ${sent} upstream`);
  if (form === "bare") t.notOk(admitted, why);
  else if (expect === "reject") t.equal(admitted, mended, why);
  else if (expect !== "either" && expect !== "one-upstream-request") t.equal(talk.statuses[0], 200, why);
}

/** Everything that went upstream is a question of one of the letters, whole, and holds nothing else. */
function judgeUpstream(t: Test, seen: readonly SeenRequest[]): void {
  for (const { method, url, rawHeaders, body } of seen) {
    const name = nameIn(body);
    t.equal(`${method} ${url}`, "POST /v1/chat/completions", `${name}: the request line`);
    t.equal(body.toString("latin1"), sentOf(name), `${name}: the body`);
    const names = rawHeaders.filter((_, i) => i % 2 === 0).map((header) => header.toLowerCase());
    const others = names.filter((header) => !UPSTREAM_HEADERS.includes(header));
    t.same(others, [], `${name}: its headers`);
    t.notMatch(rawHeaders.join("\n"), NEVER, `${name}: nothing of the vector`);
  }
}

const nameIn = (body: Buffer): string => /"user":"([^"]*)/.exec(body.toString())?.[1] ?? "?";
const LIST = "GET /v1/models HTTP/1.1\r\nHost: gw.test\r\n\r\n";

for (const way of WAYS) {
  gathered(t, `framing that could be read in two ways, ${way}`, { skip: !all && "vectors are absent" }, async (t) => {
    const upstream = await httpUpstream();
    t.teardown(() => upstream.close());
    const running = await startGateway(
      t,
      `providers: { up: { url: "${upstream.origin.origin}/v1", credential: provider-secret, speaks: [openai-chat] } }\nmodels: { any: { targets: [up:vendor] } }\n`,
    );
    const port = await entrance(t, way, running.port);
    if (port === undefined) return;

    t.equal(all?.length, 155);
    const sent = (all as Vector[]).flatMap(letters);
    const talks = await each(sent, ({ bytes }) => send(port, bytes));
    for (const [i, letter] of sent.entries()) {
      const talk = talks[i] as Talk;
      const arrived = upstream.seen.filter(({ body }) => nameIn(body) === letter.name).length;
      judge(t, letter, talk, arrived, way === "behind nginx" && letter.id in MENDED);
      if (way !== "directly" || letter.form === "bare" || letter.expect !== "reject") continue;
      // A request line without a blank line behind it may still become a request: nobody answers it.
      if (letter.id === "http09") t.same(talk.statuses, [], letter.name);
      else t.match(talk.text, FRAMING, `${letter.name}: refused for its framing and nothing else`);
    }
    judgeUpstream(t, upstream.seen);
    t.notMatch(JSON.stringify(running.log.lines), new RegExp(`CANARY|${KEY}`), "no key is in the log");
    t.same((await send(port, keyed("after", LIST))).statuses, [200], "the gateway is healthy");
  });
}
