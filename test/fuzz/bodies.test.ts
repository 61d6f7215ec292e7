import { readFileSync } from "node:fs";
import t from "tap";
import { Body } from "../../src/core/body.ts";
import { readModel } from "../../src/core/model-name.ts";
import { Scanner } from "../../src/wire/json.ts";
import { replaceMember } from "../../src/wire/splice.ts";
import { RICH_REQUESTS } from "../golden/rich-requests.ts";
import { CLIENT_BODIES } from "../support/client-bodies.ts";
import { type Cast, dice } from "../support/dice.ts";
import { startGateway } from "../support/gateway.ts";
import { each, post } from "../support/raw.ts";
import { type RecordingEntry, recordingEntries, storedExchange } from "../support/recorded.ts";
import { shared } from "../support/shared.ts";
import { httpUpstream } from "../support/upstream.ts";
import { PROTOCOLS, type ProtocolName } from "../support/vendor-sdks.ts";
import { wronged } from "../support/wrong-values.ts";

/** Mutated requests for each protocol, and random bodies. */
const REQUESTS = Number(process.env["GATEWAY_TEST_REQUESTS"] ?? 150);
const BODIES = Number(process.env["GATEWAY_TEST_BODIES"] ?? 2000);

const picker =
  (cast: Cast) =>
  <T>(list: readonly T[]): T =>
    list[cast(list.length)] as T;

const strings = shared("vectors/naughty-strings/blns.json");
const NAUGHTY: readonly string[] = [
  ...["\0", "\ud800", "\udc00\ud800", "\u2028", "\ufeff", "__proto__", "x".repeat(70_000), "\\".repeat(3000)],
  ...(strings === undefined ? [] : (JSON.parse(readFileSync(strings, "utf8")) as string[])),
];

/** Where a client of each protocol asks; the model stands in its place. */
const PATHS: Record<ProtocolName, (model: string) => string> = {
  "openai-chat": () => "/v1/chat/completions",
  "openai-responses": () => "/v1/responses",
  "anthropic-messages": () => "/v1/messages",
  gemini: (model) => `/v1beta/models/${model}:generateContent`,
};
const FOLDERS: Record<string, ProtocolName> = {
  "openai-chat": "openai-chat",
  "openai-responses": "openai-responses",
  anthropic: "anthropic-messages",
  gemini: "gemini",
};

/** Requests to begin with: what agents send, what the vendors document, what was recorded. */
function bases(protocol: ProtocolName): object[] {
  const found = [...RICH_REQUESTS[protocol], JSON.parse(CLIENT_BODIES[protocol].body)] as object[];
  const entries = recordingEntries().filter((entry) => entry.has_request && FOLDERS[entry.protocol] === protocol);
  for (let i = 0; i < entries.length; i += Math.ceil(entries.length / 40)) {
    const body = storedExchange(entries[i] as RecordingEntry).request?.body;
    if (typeof body === "object" && body !== null && !Array.isArray(body)) found.push(body);
  }
  return found;
}

/** A copy with another text in the place of one. */
function worded(json: unknown, cast: Cast): unknown {
  if (typeof json === "string") return NAUGHTY[cast(NAUGHTY.length)];
  if (typeof json !== "object" || json === null) return json;
  const entries = Object.entries(json);
  if (entries.length === 0) return json;
  const at = cast(entries.length);
  const [name, value] = entries[at] as [string, unknown];
  return Array.isArray(json) ? json.with(at, worded(value, cast)) : { ...json, [name]: worded(value, cast) };
}

/** What is no JSON, most of it behind the first bytes of a string, where the scan does not look. */
const BROKEN = ["\\x", "\u0001", "\n", "\\u12g4", "\\u", "\\", '"', "\xff", "\xed\xa0\x80", "{", "]", ",", ":", "\0"];
const PADDING = "p".repeat(300);

function broken(text: string, cast: Cast): Buffer {
  const bytes = Buffer.from(text).toString("latin1");
  const quotes = [...bytes.matchAll(/(?<=[^\\]":\s?")/g)].map(({ index }) => index);
  const at = quotes.length > 0 && cast(4) > 0 ? (quotes[cast(quotes.length)] as number) : cast(bytes.length);
  const bit = (cast(3) > 0 ? PADDING : "") + BROKEN[cast(BROKEN.length)];
  const to = cast(3) === 0 ? at + cast(5) : at;
  return Buffer.from(bytes.slice(0, at) + bit + bytes.slice(to), "latin1");
}

function letter(body: object, model: string, cast: Cast): Buffer {
  let json: unknown = "contents" in body ? body : { ...body, model };
  const way = cast(3);
  if (way === 0) json = wronged(json, cast);
  if (way === 1) json = worded(json, cast);
  const text = JSON.stringify(json);
  return way === 2 || cast(4) === 0 ? broken(text, cast) : Buffer.from(text);
}

for (const protocol of PROTOCOLS)
  t.test(`${protocol}: no client input causes an internal error of the gateway`, async (t) => {
    const upstream = await httpUpstream((_, reply) =>
      reply.writeHead(400, { "content-type": "application/json" }).end('{"error":{"message":"no"}}'),
    );
    t.teardown(() => upstream.close());
    const providers = PROTOCOLS.map((name) => `${name}: { url: "${upstream.origin.origin}/v1", speaks: [${name}] }`);
    const models = PROTOCOLS.map((name) => `${name}-m: { targets: ["${name}:theirs"] }`);
    const { port } = await startGateway(t, `providers: { ${providers} }\nmodels: { ${models} }\n`);
    const all = bases(protocol);
    const seeds = Array.from({ length: REQUESTS }, (_, i) => i + 1);
    const faults: string[] = [];
    let refused = 0;
    await each(
      seeds,
      async (seed) => {
        const cast = dice(seed * 31 + PROTOCOLS.indexOf(protocol));
        const pick = picker(cast);
        const model = `${pick(PROTOCOLS)}-m`;
        const body = letter(pick(all), model, cast);
        const { status, body: answer } = await post(port, PATHS[protocol](model), body);
        const text = answer.toString();
        if (status >= 500 || status < 400) faults.push(`${seed} for ${model}: ${status} ${text}`);
        if (!text.includes("not valid JSON")) return;
        refused++;
        if (!/ at byte \d+/.test(text)) faults.push(`${seed} for ${model}: no byte in ${text}`);
      },
      8,
    );
    t.same(faults.slice(0, 5), []);
    t.ok(refused > REQUESTS / 20, `${refused} were not JSON`);
  });

const SPACES = ["", "", "", " ", "\n", "\t ", "\r\n  "];
const NUMBERS = ["0", "-0", "1.0", "1e400", "12345678901234567890", "-1E+2", "0.1000", "5e-324"];
const TEXTS = [
  '""',
  '"\\u006d"',
  '"\\/"',
  '"\\ud83d\\ude00"',
  '"é😀"',
  '"\\\\\\""',
  '"\\ud800"',
  `"${"x".repeat(400)}"`,
];
const NAMES = ["models", "Model", "mode", "m", "", "__proto__", "a b", "\\u0061", "é", "model\\u0000", "x".repeat(50)];

function randomJson(cast: Cast, depth: number): string {
  const pick = picker(cast);
  const space = () => pick(SPACES);
  const way = cast(depth > 4 ? 4 : 6);
  if (way === 0) return pick(NUMBERS);
  if (way === 1) return pick(["true", "false", "null"]);
  if (way < 4) return pick(TEXTS);
  const inner = Array.from({ length: cast(4) }, () => {
    const name = way === 4 ? `${pick(TEXTS)}${space()}:${space()}` : "";
    return `${space()}${name}${randomJson(cast, depth + 1)}${space()}`;
  });
  return way === 4 ? `{${inner.join(",") || space()}}` : `[${inner.join(",") || space()}]`;
}

t.test(
  "in a body whose model is renamed, every other byte is unchanged, however it is split into chunks",
  async (t) => {
    const faults: string[] = [];
    for (let seed = 1; seed <= BODIES; seed++) {
      const cast = dice(seed);
      const pick = picker(cast);
      const names = NAMES.filter(() => cast(3) === 0);
      const members = names.map(
        (name) => `${pick(SPACES)}"${name}"${pick(SPACES)}:${pick(SPACES)}${randomJson(cast, 1)}`,
      );
      const written = pick(['"asked"', '"\\u0061sked"', '"as\\u006bed"']);
      const head = `${pick(SPACES)}{${members
        .slice(0, 2)
        .map((member) => `${member},`)
        .join("")}${pick(SPACES)}"${pick(["model", "\\u006dodel", "mod\\u0065l"])}"${pick(SPACES)}:${pick(SPACES)}`;
      const rest = `${pick(SPACES)}${members
        .slice(2)
        .map((member) => `,${member}`)
        .join("")}}${pick(SPACES)}`;
      const bytes = Buffer.from(head + written + rest);
      const scanner = new Scanner();
      const pieces: Buffer[] = [];
      for (let at = 0; at < bytes.length; ) {
        const piece = bytes.subarray(at, at + 1 + cast(cast(3) === 0 ? 3 : 200));
        scanner.push(piece);
        pieces.push(piece);
        at += piece.length;
      }
      const body = new Body(pieces, scanner.end());
      const member = body.member("model");
      const renamed = member && body.edited([replaceMember(member, '"theirs"')]).bytes();
      const right = readModel(body) === "asked" && renamed?.equals(Buffer.from(`${head}"theirs"${rest}`));
      if (!right) faults.push(`${seed}: ${bytes}`);
    }
    t.same(faults.slice(0, 3), []);
  },
);
