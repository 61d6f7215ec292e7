/** The targets of `npm run fuzz` that concern HTTP; see targets.ts. */
import type { IncomingMessage } from "node:http";
import completions from "../../plugins/protocols/openai-completions/index.ts";
import images from "../../plugins/protocols/openai-images/index.ts";
import realtime from "../../plugins/protocols/openai-realtime/index.ts";
import { Chain } from "../../src/core/chain.ts";
import { GatewayError } from "../../src/core/errors.ts";
import { checkModel } from "../../src/core/model-name.ts";
import { containsKey, guard } from "../../src/downstream/guard.ts";
import { takeSubprotocols } from "../../src/downstream/handshake.ts";
import { type Mount, Paths } from "../../src/downstream/paths.ts";
import { takeKeys } from "../../src/downstream/presented-keys.ts";
import { isValidKey, looksLikeKey } from "../../src/store/key-format.ts";
import { Envelopes } from "../../src/translation/envelope.ts";
import { ResponseParser } from "../../src/upstream/http1/response-parser.ts";
import { HeaderList } from "../../src/wire/headers.ts";
import { FormError, FormScanner, parseBoundary } from "../../src/wire/multipart.ts";
import { Query } from "../../src/wire/query.ts";
import { cut, holds, type Target } from "../support/guided.ts";
import { readAtOnceByNode } from "../support/node-parser.ts";
import { oddSeeds } from "../support/odd-responses.ts";
import { SPOKEN } from "../support/translations.ts";

const LIMITS = { headers: 100, size: 16_384, target: 8192 };

const latin = (texts: readonly string[]): Buffer[] => texts.map((text) => Buffer.from(text, "latin1"));
const same = (one: string, other: string): void => holds(one === other, () => `whole: ${one}; in pieces: ${other}`);

/** Does it; answers undefined where it is refused. */
function orRefused<T>(act: () => T): T | undefined {
  try {
    return act();
  } catch (error) {
    if (!(error instanceof GatewayError) || error.status >= 500) throw error;
    return undefined;
  }
}

function response(method: string, pieces: readonly Buffer[]) {
  const seen = { status: 0, head: "", body: "", whole: false, failed: "", behind: 0 };
  const parser = new ResponseParser({
    onHead: ({ status, headers }) => {
      seen.status = status;
      seen.head += `${headers}`;
    },
    onBody: (bytes) => (seen.body += bytes.toString("latin1")),
    onEnd: () => (seen.whole = true),
  });
  parser.expect(method);
  try {
    for (const piece of pieces) seen.behind += piece.length - (seen.whole ? 0 : parser.push(piece));
    if (!seen.whole) parser.close();
  } catch (error) {
    const { code = "", stack } = error as Error & { code?: string };
    holds(/^RESPONSE_/.test(code), () => String(stack));
    seen.failed = code;
  }
  // Where it fails, what is behind it was not looked at.
  return { ...seen, behind: seen.failed === "" ? seen.behind : 0, kept: seen.whole && parser.reusable };
}

/** What node's parser refuses, and the RFC allows; see responses.test.ts. */
const ONLY_OURS = /\n[0-9a-f]+[ \t]*;|^transfer-encoding:[ \t]*chunked[ \t]*\t|^(?:proxy-)?connection:.*close/im;

/** Heads that nobody may refuse: one short length at most, and nothing else with a meaning for the connection. */
const PLAIN =
  /^HTTP\/1\.1 [2-5]\d\d [\x20-\x7e]*\r\n(?:x-[a-z]+: [\x21-\x7e]*\r\n)*(?:content-length: \d{1,9}\r\n|transfer-encoding: chunked\r\n)?\r\n/i;

const http: Target = {
  seeds: () =>
    latin([
      ...oddSeeds().filter((text) => text.length < 600),
      "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nf\r\nfifteen letters\r\n0B\r\nten letters\r\n0\r\n\r\n",
    ]),
  words: [
    ...[
      "HTTP/1.1 200 OK\r\n",
      "HTTP/1.0 ",
      "HTTP/1.1 100 Continue\r\n\r\n",
      "\r\n\r\n",
      "\r\n",
      "\n",
      "\r",
      "content-length: 5\r\n",
    ],
    ...[
      "transfer-encoding: chunked\r\n",
      "connection: close\r\n",
      "0\r\n\r\n",
      "5\r\nhello\r\n",
      "\r\n5\r\nhello\rx0\r\n\r\n",
      ";a=b",
      " ",
      ":",
      "\0",
      "ffffffff\r\n",
      "F\r\nfifteen letters\r\n",
      "HTTP/1.1 304 Not Modified\r\n",
      "HTTP/1.1 204 No Content\r\n",
    ],
  ],
  take(bytes) {
    const method = (bytes.at(-1) ?? 0) % 7 === 0 ? "HEAD" : "POST";
    const whole = response(method, [bytes]);
    // A fault may be noticed earlier in pieces, in other words.
    const [one, other] = [whole, response(method, cut(bytes))].map((each) => ({ ...each, failed: each.failed !== "" }));
    same(JSON.stringify(one), JSON.stringify(other));
    const text = bytes.toString("latin1");
    if (ONLY_OURS.test(text)) return;
    if (!whole.whole) {
      const isOurs = whole.failed === "RESPONSE_TRAILER_INVALID" || /\n[0-9a-f]{13,}/i.test(text) || !PLAIN.test(text);
      holds(isOurs || !readAtOnceByNode(method, bytes), () => `only node takes it: ${whole.failed}`);
      return;
    }
    // What we say is the response is all of one to node too: nothing behind it could be taken as the next one's.
    const node = readAtOnceByNode(method, bytes.subarray(0, bytes.length - whole.behind));
    same(`${whole.status} ${whole.body}`, `${node?.status} ${node?.body.toString("latin1")}`);
  },
};

const chain = new Chain("llm", []);
const PROTOCOLS = [...Object.values(SPOKEN), completions, images, realtime];
const MOUNTS: readonly Mount[] = [
  ...PROTOCOLS.flatMap((protocol) => protocol.paths.map((pattern) => ({ pattern, chain, protocol }))),
  { pattern: "/v1/models", chain, serve: true },
];
/** All that a provider may be asked for. */
const UPSTREAM =
  /^\/(?:chat\/completions|completions|responses(?:\/[\w.%-]+)*|messages(?:\/[a-z_/%0-9]+)?|images\/[a-z]+|realtime(?:\/[a-z_]+)*|models\/[^/?#]+:[A-Za-z]+(?:\?alt=sse)?)$/;
const PATHS = new Paths(MOUNTS, PROTOCOLS);

/** A path as a server has it that decodes it more than once. */
function decodedFully(path: string): string {
  const decoded = path.replaceAll(/%([0-9a-f]{2})/gi, (_, code: string) =>
    String.fromCharCode(Number.parseInt(code, 16)),
  );
  return decoded === path ? path : decodedFully(decoded);
}

const path: Target = {
  seeds: () =>
    latin([
      ...MOUNTS.flatMap(({ pattern }) => [`POST ${pattern.replace("*", "any:generateContent")}`, `GET ${pattern}/x`]),
      "POST /v1beta/models/a%2Fb%3Ax:streamGenerateContent?alt=sse&key=k",
      "DELETE /v1/responses/resp_1?x=%20+&y",
      "GET //v1/v1/models/",
      "POST /v1/../%2e%2E/x;y=1",
    ]),
  words: [
    "/",
    "//",
    "..",
    "/./",
    "/..;/",
    "/.;x",
    "/%252e%2e/",
    "%2e",
    "%2F",
    "%5c",
    "%00",
    "%25",
    ";",
    "?",
    "&",
    "=",
    "#",
    "\\",
    ":",
    "*",
    "v1/",
    "models/",
    ":generateContent",
    "alt=sse",
    "key=",
    "+",
    "%",
    "\xff",
  ],
  take(bytes) {
    const [, method = "GET", target = "/"] = /^([A-Z]+) (.*)$/s.exec(bytes.toString("latin1")) ?? [];
    const lines = ["Host", "a"];
    orRefused(() => {
      guard({ method, url: target, httpVersion: "1.1" } as IncomingMessage, new HeaderList(lines), LIMITS);
      const [raw = "", ...rest] = target.split("?");
      const read = decodedFully(raw);
      holds(!/(?:^|[\\/])\.\.?(?:[\\/;]|$)/.test(read), () => `it leads upwards: ${raw}`);
      let query: Query;
      try {
        query = new Query(rest.join("?"));
      } catch (error) {
        holds(error instanceof URIError, () => String(error));
        return;
      }
      holds(query.toString() === rest.join("?"), () => `${query} is not ${rest}`);
      PATHS.findSocket(raw, query);
      const { operation, pathModel } = PATHS.find(method, raw, query, new HeaderList(lines));
      if (pathModel !== undefined) checkModel(pathModel);
      const up = operation.upstream("model");
      holds(operation.name === "serve" || UPSTREAM.test(up), () => `asked upstream: ${up}`);
    });
  },
};

const ONE = ["host", "content-length", "transfer-encoding", "authorization", "x-api-key"];

const headers: Target = {
  seeds: () =>
    latin([
      "Host: a\r\nAuthorization: Bearer gw_abc\r\nContent-Length: 5",
      "Host: [::1]:80\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\nX-Goog-Api-Key:  k ",
      "host: a\r\nsec-websocket-protocol: realtime, openai-insecure-api-key.k, openai-organization.o\r\nx-api-key: k",
    ]),
  words: [
    "Host",
    "host: a\r\n",
    "Content-Length: ",
    "Transfer-Encoding: ",
    "chunked",
    "Bearer ",
    "Authorization: ",
    "api-key: ",
    "\r\n",
    ":",
    ",",
    " ",
    "\t",
    "Connection: ",
    "Expect: ",
    "key=",
    "\x80",
  ],
  take(bytes) {
    // node's parser lets no other bytes into a value, and trims it.
    const text = bytes.toString("latin1").replaceAll(/[^\t\r\n\x20-\x7e\x80-\xff]/g, "");
    const fields = text
      .split("\r\n")
      .map((line) => /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*?)[ \t]*$/s.exec(line.replaceAll(/[\r\n]/g, "")));
    const list = new HeaderList(fields.flatMap((field) => (field ? [field[1] as string, field[2] as string] : [])));
    const passed = orRefused(() => {
      guard({ method: "POST", url: "/v1/x", httpVersion: "1.1" } as IncomingMessage, list, LIMITS);
      return true;
    });
    if (passed)
      for (const name of ONE)
        holds([...list.entries()].filter(([key]) => key === name).length < 2, () => `${name} twice`);
    const query = new Query("key=k&x=1&api_key=z&Token=q");
    const found = takeKeys(list, query);
    const { protocols = [] } = orRefused(() => takeSubprotocols(list, PATHS.socketProtocols)) ?? {};
    holds(query.toString() === "x=1" && found.every((key) => key !== ""), () => `${query} ${found}`);
    holds(
      ![...list.entries()].some(([name]) =>
        /^(?:authorization|cookie|x-api-key|api-key|x-goog-api-key|sec-websocket-protocol)$/.test(name),
      ),
      () => `left: ${list.lines}`,
    );
    holds(
      !protocols.some((name) => /^openai-(?:insecure-api-key|organization|project)\./.test(name)),
      () => `offered: ${protocols}`,
    );
  },
};

const B = "----form7";
const part = (head: string, value: string): string =>
  `--${B}\r\nContent-Disposition: form-data; ${head}\r\n\r\n${value}\r\n`;

function form(boundary: string, pieces: readonly Buffer[]): string {
  const scanner = new FormScanner(boundary, "model", 256);
  try {
    let size = 0;
    for (const piece of pieces) {
      scanner.push(piece);
      size += piece.length;
      holds(scanner.checkedUntil <= size, () => `${scanner.checkedUntil} of ${size} bytes are judged`);
    }
    scanner.end();
  } catch (error) {
    // Of two faults, either may be met first.
    if (error instanceof FormError) return "refused";
    throw error;
  }
  return scanner.found ? `at ${scanner.found.start}-${scanner.found.end}` : "no model";
}

const NAMES_MODEL = /^content-disposition:.*;[ \t]*name=(?:"model"|model)[ \t]*(?:;|$)/im;

/** The headers and the content of each part, as the plainest reader would find them. */
function partsOf(boundary: string, body: Buffer): [head: string, content: string][] {
  const parts = `\r\n${body.toString("latin1")}`.split(`\r\n--${boundary}`).slice(1);
  const end = parts.findIndex((text) => text.startsWith("--"));
  return parts.slice(0, end < 0 ? undefined : end).map((text) => {
    const [head = "", ...content] = text.split("\r\n\r\n");
    return [head, content.join("\r\n\r\n")];
  });
}

const forms: Target = {
  seeds: () =>
    latin([
      `multipart/form-data; boundary=${B}\n${part('name="model"', "cheap")}${part('name="image"; filename="a.png"\r\nContent-Type: image/png', "\x89PNG\r\n--x")}--${B}--\r\n`,
      `multipart/form-data; charset=utf-8; boundary="${B}"\n${part("name=model\r\nContent-Type: text/plain; charset=utf-8", "cheap")}--${B}--`,
      `Multipart/Form-Data;boundary=${B}\n${part('name="model"\r\nContent-Length: 5', "cheap")}${part('name="prompt"', "model")}--${B}--\r\n`,
    ]),
  words: [
    `--${B}`,
    `\r\n--${B}--`,
    "\r\n",
    "\n",
    "\r",
    '"',
    ";",
    "boundary=",
    "name=",
    "filename=",
    "name*=utf-8''",
    "model",
    "Content-",
    "--",
    "\\",
    "%22",
    "\0",
    part('name="model"', "dear"),
  ],
  take(bytes) {
    const end = bytes.indexOf("\n");
    const boundary = parseBoundary(bytes.toString("latin1", 0, Math.max(0, end)));
    if (boundary === undefined) return;
    const body = bytes.subarray(end + 1);
    const whole = form(boundary, [body]);
    same(whole, form(boundary, cut(body)));
    if (!whole.startsWith("at ")) return;
    const models = partsOf(boundary, body).filter(([head]) => NAMES_MODEL.test(head));
    holds(models.length === 1, () => `${models.length} models`);
    const [start, to] = whole.slice(3).split("-").map(Number);
    holds(body.toString("latin1", start, to) === models[0]?.[1], () => `${whole}: it is ${models[0]?.[1]}`);
  },
};

const envelopes = new Envelopes("secret");
const SEALED = envelopes.seal({ protocol: "gemini", kind: "signature", data: "c2ln" }, "me");
const KEY = "gw_0123456789_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQ_0aBcDe";

const keys: Target = {
  seeds: () =>
    latin([
      KEY,
      KEY.slice(0, 40),
      SEALED,
      SEALED.replaceAll("+", "-").replaceAll("=", ""),
      "sk-ant-api03-abc",
      "/v1/gw_%30123456789_abcdefghij",
    ]),
  words: ["gw_", "gw1state", "_", "=", "-", "+", "/", "%67w_", "0123456789", KEY, SEALED],
  take(bytes) {
    const text = bytes.toString("latin1");
    const valid = isValidKey(text);
    holds(!valid || looksLikeKey(text), () => "valid, but not of its shape");
    holds(!looksLikeKey(text) || containsKey(`/v1/${text}`), () => "it may stand in a path");
    for (const owner of ["me", "you"]) {
      const opened = orRefused(() => envelopes.open(text, [owner]));
      holds(!opened || (owner === "me" && opened.data === "c2ln"), () => `opened for ${owner}: ${text}`);
    }
    envelopes.openLast([Buffer.from(`{"x":"`), bytes, Buffer.from('"}')], ["me"]);
  },
};

export const HTTP_TARGETS: Readonly<Record<string, Target>> = { http, path, headers, forms, keys };
