import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import t, { type Test } from "tap";
import { startGateway } from "../support/gateway.ts";
import { gathered } from "../support/gathered.ts";
import { entrance, WAYS } from "../support/nginx.ts";
import { type Answered, each, post, vectors } from "../support/raw.ts";
import { shared } from "../support/shared.ts";
import { httpUpstream, type SeenRequest } from "../support/upstream.ts";

interface Vector {
  id: string;
  /** The body itself, or in words what must be made. */
  body: string;
  /** In words, like `400 (no trim)`. */
  expect: string;
}

interface Letter {
  name: string;
  body: Buffer;
  headers: Record<string, string>;
  /** Statuses that are right. */
  wanted: readonly number[];
}

const suite = shared("vectors/json-test-suite/test_parsing");
const ambiguous = vectors<Vector[]>("json-ambiguity-vectors.json");

/** Models of the gateway, and what the provider calls them. */
const MODELS: Record<string, string> = { m: "vendor-m", cheap: "vendor-cheap", dear: "vendor-dear" };

/** A question with a suite's file as the value of a member. `i_` files may be refused, but never changed. */
function fromSuite(folder: string): Letter[] {
  return readdirSync(folder).map((name) => ({
    name,
    body: Buffer.concat([Buffer.from('{"model":"m","x":'), readFileSync(join(folder, name)), Buffer.from("}")]),
    headers: {},
    wanted: name.startsWith("y_") ? [200] : name.startsWith("n_") ? [400] : [200, 400],
  }));
}

const latin1 = (text: string): Buffer => Buffer.from(text, "latin1");
const GOOD = '{"model":"m"}';

/** Bodies that the vectors give in words, and headers that go with them. */
const MADE: Record<string, { body?: Buffer; headers?: Record<string, string> }> = {
  utf16: { body: Buffer.from(GOOD, "utf16le") },
  "bad-utf8": { body: latin1('{"model":"m\xff"}') },
  overlong: { body: latin1('{"model":"m","x":"\xc0\xae"}') },
  "depth-200": { body: latin1(`{"model":"m","messages":${"[".repeat(200)}${"]".repeat(200)}}`) },
  "depth-1e6": { body: latin1("[".repeat(2_000_000)) },
  "keys-1e5": { body: latin1(`{"model":"m",${Array.from({ length: 1e5 }, (_, i) => `"k${i}":0`)}}`) },
  "gzip-bomb": {
    // A thousand members of ten megabytes of white space: valid JSON up to there, whoever reads it all.
    body: Buffer.concat([gzipSync(GOOD), ...Array<Buffer>(1000).fill(gzipSync(Buffer.alloc(1e7, " ")))]),
    headers: { "content-encoding": "gzip" },
  },
  "gzip-nested": {
    body: gzipSync(gzipSync(gzipSync(GOOD))),
    headers: { "content-encoding": "gzip, gzip, gzip" },
  },
  "enc-unknown": { body: latin1(GOOD), headers: { "content-encoding": "x" } },
  "ct-multipart": { body: latin1(GOOD), headers: { "content-type": "multipart/form-data; boundary=x" } },
  "ct-charset": { body: latin1(GOOD), headers: { "content-type": "application/json; charset=utf-16" } },
};

/** The statuses that an expectation in words allows. */
const EXPECTED: [RegExp, number[]][] = [
  [/^(?:use model|cheap|unchanged|number text kept|kept)/, [200]],
  [/^(?:policy|400 or <)/, [200, 400]],
  [/miss/, [400, 404]],
  [/^4\d\d/, []],
];

function fromVector({ id, body, expect }: Vector): Letter {
  const [, statuses] = EXPECTED.find(([words]) => words.test(expect)) ?? [];
  const made = MADE[id] ?? {};
  return {
    name: `${id}: ${expect}`,
    body: made.body ?? Buffer.from(body),
    headers: made.headers ?? {},
    wanted: statuses?.length === 0 ? [Number(expect.slice(0, 3))] : (statuses ?? []),
  };
}

/** The body as a provider must get it: another name for the model, no other spelling of it, and else not a byte changed. */
function sentOf(body: Buffer): string {
  return body
    .toString("latin1")
    .replace('"Model":"dear",', "")
    .replace(/(?<="model":")(?:m|cheap)(?=")/, (model) => MODELS[model] as string);
}

function judge(t: Test, letters: readonly Letter[], answers: readonly Answered[], seen: readonly SeenRequest[]): void {
  const arrived = seen.map(({ body }) => body.toString("latin1"));
  const wanted: string[] = [];
  for (const [i, { name, body, wanted: statuses }] of letters.entries()) {
    const { status = 0, body: text = "" } = answers[i] ?? {};
    t.ok(statuses.includes(status), `${name}, got ${status} ${status === 200 ? "" : text}`);
    if (status === 200) wanted.push(sentOf(body));
  }
  t.strictSame(arrived.toSorted(), wanted.toSorted(), "the accepted bodies arrived byte for byte, and nothing else");
}

for (const way of WAYS) {
  gathered(t, `JSON that parsers read differently, ${way}`, { skip: !suite && "vectors are absent" }, async (t) => {
    const upstream = await httpUpstream();
    t.teardown(() => upstream.close());
    const models = Object.entries(MODELS).map(([name, vendor]) => `${name}: { targets: [up:${vendor}] }`);
    const running = await startGateway(
      t,
      `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }\nmodels: { ${models.join(", ")} }\n`,
    );
    const port = await entrance(t, way, running.port, "client_max_body_size 64m;");
    if (port === undefined) return;
    const { seen } = upstream;
    const ask = ({ body, headers }: Letter) => post(port, "/v1/chat/completions", body, headers);

    const embedded = fromSuite(suite as string);
    t.equal(embedded.length, 318);
    judge(t, embedded, await each(embedded, ask), seen);

    seen.length = 0;
    const whole = readdirSync(suite as string).map((name) => ({
      name: `${name} as the whole body`,
      body: readFileSync(join(suite as string, name)),
      headers: {},
      wanted: [400],
    }));
    judge(t, whole, await each(whole, ask), seen);

    const made = (ambiguous as Vector[]).map(fromVector);
    t.equal(made.length, 44);
    judge(t, made, await each(made, ask, 4), seen);
    t.equal(Object.getPrototypeOf({}), Object.prototype);
    t.notOk("x" in Object.prototype, "no prototype was changed");
  });
}

t.test(
  "a syntax error far into the body, after short members, is a 400 with member and byte offset, whichever parser finds it",
  async (t) => {
    const upstream = await httpUpstream();
    t.teardown(() => upstream.close());
    const { port } = await startGateway(
      t,
      `providers: { up: { url: "${upstream.origin.origin}", speaks: [openai-chat, openai-responses, anthropic-messages, gemini] } }
models: { one: { targets: [up:x] }, two: { targets: [up:x, up:y] } }
`,
    );
    // In every protocol what is read in any, and what nobody knows.
    const read = [
      ...["metadata", "labels", "stream_options", "prompt_cache_key", "previous_response_id", "prompt", "user"],
      ...["service_tier", "serviceTier", "container", "cachedContent", "anything"],
    ];
    const at = (model: string) => ({
      "/v1/chat/completions": [`"model":"${model}","messages":[]`, ...read],
      "/v1/responses": [`"model":"${model}","input":"x"`, ...read],
      "/v1/messages": [`"model":"${model}","max_tokens":9,"messages":[]`, ...read],
      [`/v1beta/models/${model}:generateContent`]: ['"contents":[]', ...read],
    });
    for (const [path, [rest = "", ...names]] of ["one", "two"].flatMap((model) => Object.entries(at(model))))
      for (const name of names)
        for (const fault of ["\u0001", "\n", "\\q", "\\u12g4"]) {
          const long = `"${"x".repeat(300)}${fault}"`;
          const value = /^(?:metadata|labels|stream_options)$/.test(name) ? `{"user_id":${long}}` : long;
          const body = `{${rest},"${name}":${value}}`;
          const { status, body: text } = await post(port, path, body);
          t.equal(status, 400, `${path} ${name}`);
          const place = body.indexOf(fault) + { "\\q": 1, "\\u12g4": 4 }[fault as "\\q"] || body.indexOf(fault);
          t.match(text.toString(), new RegExp(`member \\\\"${name}\\\\".* at byte ${place}\\b`), `${path} ${name}`);
        }
    t.equal(upstream.seen.length, 0);
  },
);
