import { createRequire } from "node:module";
import { Readable } from "node:stream";
import t from "tap";
import { FormError, FormScanner, parseBoundary } from "../../src/wire/multipart.ts";
import { type Cast, dice } from "../support/dice.ts";
import { KEY, startGateway } from "../support/gateway.ts";
import { each, post } from "../support/raw.ts";
import { httpUpstream } from "../support/upstream.ts";

/** Mutated forms. */
const FORMS = Number(process.env["GATEWAY_TEST_FORMS"] ?? 800);

/** A parser of forms that streams, as far as it is needed here. */
interface Events {
  on(event: string, listener: (...given: never[]) => void): Events;
}
const load = createRequire(import.meta.url);
const busboy = load("busboy") as (options: object) => NodeJS.WritableStream & Events;
const multiparty = load("multiparty") as { Form: new () => Events & { parse(request: object): void } };

interface Letter {
  type: string;
  body: Buffer;
}

const B = "----formBoundary7";
const part = (head: string, value: string) => `--${B}\r\nContent-Disposition: form-data; ${head}\r\n\r\n${value}\r\n`;
const model = (name: string) => part('name="model"', name);
const image = part('name="image"; filename="a.png"\r\nContent-Type: image/png', "\x89PNG\r\n\x1a\n\0\0--\r\n-");
const prompt = part('name="prompt"', "a cat\r\nin a hat");
const END = `--${B}--\r\n`;
const BASES = [
  model("cheap") + prompt + image + END,
  image + prompt + model("cheap") + END,
  prompt + part('name="model"\r\nContent-Type: text/plain; charset=utf-8', "cheap") + END,
  image + model("cheap") + part('name="mask"; filename="b"', "") + END,
];
const TYPE = `multipart/form-data; boundary=${B}`;
const TYPES = [
  `multipart/form-data; boundary="${B}"`,
  `multipart/form-data; boundary=${B}; boundary=x`,
  `multipart/form-data; boundary=x; boundary=${B}`,
  `multipart/form-data; a="; boundary=x"; boundary=${B}`,
  `multipart/form-data; boundary=${B}x`,
  `multipart/form-data; boundary=${B.slice(0, -1)}`,
  `multipart/form-data; charset=utf-8; boundary=${B}`,
  `multipart/form-data; boundary*=utf-8''x; boundary=${B}`,
  "multipart/form-data; boundary=-",
];
/** Names that some parsers read as `model`. */
const NAMES = ['"\xef\xbb\xbfmodel"', "model]", '"=?utf-8?q?model?="', '"a; name=model"', '"model=a"'];
/** What is put in somewhere. */
const BITS = [
  ...["\r\n", "\n", "\r", "--", " ", "\t", "\0", '"', "\\", ";", "\r\n\r\n", "é", "%22", "[]"],
  ...[`--${B}`, `\r\n--${B}`, `\r\n--${B}--`, `\r\n--${B}--\r\n`, `\n--${B}\n`, `\r\n--${B} \r\n`, `\r\n--${B}x\r\n`],
  ...[model("dear"), `\r\n${model("dear")}`, image, END, `\r\n${model("dear").replaceAll("\r\n", "\n")}`],
  ...['; name="model"', "; name=model", "; name*=utf-8''model", '; filename="x"', ' filename="; name=model"'],
  ...[
    "\r\nContent-Disposition: form-data; name=model",
    "\r\nContent-Transfer-Encoding: base64",
    "\r\nContent-Length: 3",
  ],
  ...[
    "\r\nContent-Type: text/plain; charset=utf-16",
    "\r\nContent-Type: multipart/mixed; boundary=y",
    "\r\nx: y",
    "\r\n z",
  ],
];

/** Parts that are well-formed in themselves: a second model, or what a reader may take for one. */
const PARTS = [
  ...[
    model("dear"),
    model("cheap"),
    part("name=model", "dear"),
    part('name="Model"', "dear"),
    part('name="model[]"', "dear"),
  ],
  ...[
    part('name="model"; filename="x"', "dear"),
    part('name="mod%65l"', "dear"),
    part('name=" model"', "dear"),
    prompt,
  ],
];

/** The same with another part between two. */
function withPart(text: string, pick: <T>(list: readonly T[]) => T): string {
  const at = pick([...text.matchAll(new RegExp(`--${B}`, "g"))].map(({ index }) => index));
  return text.slice(0, at) + pick(PARTS) + text.slice(at);
}

function letter(seed: number): Letter {
  const cast = dice(seed);
  const pick = <T>(list: readonly T[]): T => list[cast(list.length)] as T;
  let text = pick(BASES);
  if (seed % 8 === 0) text = text.replace('"prompt"', pick(NAMES));
  if (cast(6) === 0) text = withPart(text, pick);
  for (let times = cast(3); times > 0; times--) text = mutated(text, cast, pick);
  return { type: cast(8) === 0 ? pick(TYPES) : TYPE, body: Buffer.from(text, "latin1") };
}

function mutated(text: string, cast: Cast, pick: <T>(list: readonly T[]) => T): string {
  // Most of what matters happens at line breaks and quotes.
  const marks = [...text.matchAll(/\r\n|"|;|--/g)].map(({ index, 0: { length } }) => index + (cast(2) && length));
  const at = cast(3) > 0 ? pick(marks) : cast(text.length);
  const to = Math.min(text.length, at + 1 + cast(cast(4) === 0 ? 60 : 3));
  const ways = [
    () => text.slice(0, at) + pick(BITS) + text.slice(at),
    () => text.slice(0, at) + pick(BITS) + text.slice(at),
    () => text.slice(0, at) + pick(BITS) + text.slice(to),
    () => text.slice(0, at) + text.slice(to),
    () => text.slice(0, to) + text.slice(at),
    () => text.slice(0, at) + String.fromCharCode(cast(256)) + text.slice(at + 1),
    () => text.slice(0, at) + text.slice(at).toUpperCase(),
  ];
  return pick(ways)();
}

/** The values of all fields `model`, files of that name included, as busboy reads them. */
function asBusboy({ type, body }: Letter): Promise<string[]> {
  return new Promise((resolve) => {
    const found: string[] = [];
    const reader = busboy({ headers: { "content-type": type }, preservePath: true });
    reader.on("field", (name: string, value: string) => void (name === "model" && found.push(value)));
    reader.on("file", (name: string, file: Readable) => {
      if (name === "model") found.push("a file");
      file.resume();
    });
    reader.on("error", (error: Error) => resolve([error.message]));
    reader.on("close", () => resolve(found));
    reader.end(body);
  });
}

/** The same, as multiparty reads them. */
function asMultiparty({ type, body }: Letter): Promise<string[]> {
  return new Promise((resolve) => {
    const found: Promise<string>[] = [];
    const reader = new multiparty.Form();
    reader.on("part", (part: Readable & { name: string; filename?: string }) => {
      part.on("error", () => {});
      if (part.name !== "model") part.resume();
      else found.push(part.toArray().then((pieces) => (part.filename ? "a file" : Buffer.concat(pieces).toString())));
    });
    reader.on("error", (error: Error) => resolve([error.message]));
    reader.on("close", () => resolve(Promise.all(found)));
    const headers = { "content-type": type, "content-length": String(body.length) };
    reader.parse(Object.assign(Readable.from([body], { objectMode: false }), { headers }));
  });
}

/** The same, as Node's own fetch reads them; nothing where it refuses the form. */
async function asFetch({ type, body }: Letter): Promise<string[] | undefined> {
  const form = await new Response(new Uint8Array(body), { headers: { "content-type": type } })
    .formData()
    .catch(() => undefined);
  return form?.getAll("model").map((value) => (typeof value === "string" ? value : "a file"));
}

/** Where the model stands, or why there is none; the same however the form is cut. */
function asScanned({ type, body }: Letter, step: number): string {
  const boundary = parseBoundary(type);
  if (boundary === undefined) return "no boundary";
  const scanner = new FormScanner(boundary, "model", 256);
  try {
    for (let at = 0; at < body.length; at += step) scanner.push(body.subarray(at, at + step));
    scanner.end();
  } catch (error) {
    if (error instanceof FormError) return error.message;
    throw error;
  }
  return scanner.found ? `at ${scanner.found.start}-${scanner.found.end}` : "no model";
}

t.test("a form that passes names one model, and every parser reads the one that was checked", async (t) => {
  const upstream = await httpUpstream();
  t.teardown(() => upstream.close());
  const { port } = await startGateway(
    t,
    `keys: { test: { key: ${KEY}, models: [cheap] } }
providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-images] } }
models: { cheap: { targets: [up:vendors-cheap] }, dear: { targets: [up:vendors-dear] } }\n`,
  );
  const letters = Array.from({ length: FORMS }, (_, i) => letter(i + 1));
  const statuses = await each(letters, async ({ type, body }) => {
    const { status } = await post(port, "/v1/images/edits", body, { "content-type": type });
    return status;
  });
  const { seen } = upstream;
  t.equal(seen.length, statuses.filter((status) => status === 200).length);
  t.ok(seen.length > FORMS / 8, `${seen.length} of ${FORMS} passed`);
  t.ok(seen.length < (FORMS * 3) / 4);
  t.same(
    statuses.filter((status) => ![200, 400, 403, 404, 415].includes(status)),
    [],
  );
  const differing: string[] = [];
  for (const { rawHeaders, body } of seen) {
    const type = rawHeaders[rawHeaders.findIndex((name) => name.toLowerCase() === "content-type") + 1] ?? "";
    for (const read of [asBusboy, asMultiparty, asFetch]) {
      const models = await read({ type, body });
      if (models && (models.length !== 1 || models[0] !== "vendors-cheap"))
        differing.push(
          `${read.name} sees ${JSON.stringify(models)} in ${type}: ${JSON.stringify(body.toString("latin1"))}`,
        );
    }
  }
  t.same(differing.slice(0, 3), []);
});

t.test("a form has the same result however it is split into chunks", async (t) => {
  const differing: string[] = [];
  for (let seed = 1; seed <= FORMS; seed++) {
    const form = letter(seed);
    const whole = asScanned(form, form.body.length);
    for (const step of [1, 2 + (seed % 5), 40 + (seed % 50)])
      if (asScanned(form, step) !== whole)
        differing.push(`${seed} in pieces of ${step}: ${asScanned(form, step)}, not ${whole}`);
  }
  t.same(differing.slice(0, 3), []);
});
