import t from "tap";
import { FormError, FormScanner, parseBoundary } from "../../src/wire/multipart.ts";
import { gathered } from "../support/gathered.ts";

const part = (head: string, value: string) => `--xx\r\ncontent-disposition: form-data; ${head}\r\n\r\n${value}\r\n`;
const MODEL = part('name="model"', "image-1");
const END = "--xx--\r\n";

function scanned(form: string | Buffer, step: number): FormScanner {
  const body = Buffer.from(form);
  const scanner = new FormScanner("xx", "model", 256);
  for (let at = 0; at < body.length; at += step) scanner.push(body.subarray(at, at + step));
  scanner.end();
  return scanner;
}

/** What is said of a form, however it is cut; the same each time. */
function refusal(form: string | Buffer): string {
  const said = new Set<string>();
  for (const step of [1, 2, 3, 7, 13, 50, 1 << 16]) {
    try {
      said.add(`found ${scanned(form, step).found?.start}`);
    } catch (error) {
      if (!(error instanceof FormError)) throw error;
      said.add(error.message);
    }
  }
  return [...said].join(" | ");
}

gathered(t, "a field is found wherever it stands and however the form is cut", async (t) => {
  const file = part(
    'name="image"; filename="model.png"\r\ncontent-type: image/png',
    `\r\n--x\r\n\r\nname="model"\r\n--x\r--\r\n- not it`,
  );
  const forms = {
    first: `${MODEL}${file}${END}`,
    last: `${file}${part("name=model", "image-1")}${END}`,
    "behind an empty part": `${part('name="empty"', "")}${MODEL}--xx--`,
    "behind a line break": `\r\n${MODEL}${END}`,
    "in front of one line break more": `${file}${MODEL}${END}\r\n`,
    "with all that may stand in its head": `--xx\r\nContent-Type: text/plain; charset="UTF-8"\r\nContent-Length: 7\r\nContent-Transfer-Encoding: 8bit\r\nCONTENT-DISPOSITION:form-data;name="model"\r\n\r\nimage-1\r\n${END}`,
    "beside a file with two names": `${part('name="image[]"; filename="a\\b;name=model.png"; filename*=utf-8\'\'%e2%82%ac.png', "x")}${MODEL}${END}`,
  };
  for (const [name, form] of Object.entries(forms)) {
    const body = Buffer.from(form);
    const at = body.lastIndexOf("image-1");
    for (let step = 1; step < 60; step++) {
      const scanner = scanned(body, step);
      t.same(scanner.found, { start: at, end: at + 7 }, `${name}, split every ${step}`);
      t.equal(scanner.checkedUntil, body.length);
    }
  }
});

/** Forms that readers are known to take differently, and what is said of them. */
const REFUSED: Record<string, [form: string, said: RegExp]> = {
  "the field twice": [MODEL + MODEL + END, /occurs twice/],
  "the field twice, once as a file": [MODEL + part('name="model"; filename="a"', "b") + END, /occurs twice/],
  "the field as a file": [part('name="model"; filename="a"', "b") + END, /not plain text/],
  "another case": [part('name="Model"', "a") + MODEL + END, /looks like model/],
  "a list of it": [part('name="model[]"', "a") + MODEL + END, /looks like model/],
  "white space around it": [part('name=" model "', "a") + MODEL + END, /looks like model/],
  "a boundary that goes on": [
    `--xx\r\ncontent-disposition: form-data; name="a"\r\n\r\nb\r\n--xxy\r\n${END}`,
    /followed by/,
  ],
  "a boundary that goes on in a value": [part('name="a"', `b\r\n--xx \r\n`) + MODEL + END, /followed by/],
  "a boundary within a line": [part('name="a"', `b--xx\r\n${MODEL}`) + END, /within a part's value/],
  "a boundary behind a bare line feed": [part('name="a"', "b\n--xx\r\n") + MODEL + END, /within a part's value/],
  "a boundary without a value": [
    `--xx\r\ncontent-disposition: form-data; name="a"\r\n\r\n${MODEL}${END}`,
    /within a part/,
  ],
  "a preamble": [`hello\r\n${MODEL}${END}`, /does not begin/],
  "an epilogue": [`${MODEL}${END}${part('name="model"', "b")}${END}`, /follows its last delimiter/],
  "half of a line break at the end": [`${MODEL}--xx--\r`, /ends before/],
  "no end": [MODEL, /ends before/],
  nothing: ["", /ends before/],
  "an end alone": [END, /followed by/],
  "line feeds alone": [(MODEL + END).replaceAll("\r\n", "\n"), /followed by/],
  "an empty filename": [part('name="a"; filename=""', "b") + MODEL + END, /content-disposition/],
  "an empty filename, encoded": [part("name=\"a\"; filename*=utf-8''", "b") + MODEL + END, /content-disposition/],
  "a folded line": [part('name="a";\r\n filename="b"', "") + MODEL + END, /malformed/],
  "a bare line feed in a head": [part('name="a"\nx: y', "") + MODEL + END, /control character/],
  "a NUL in a head": [part('name="a\0"', "") + MODEL + END, /control character/],
  "a disposition twice": [
    part('name="a"\r\ncontent-disposition: form-data; name="model"', "b") + MODEL + END,
    /field twice/,
  ],
  "no disposition": [`--xx\r\ncontent-type: text/plain\r\n\r\nb\r\n${MODEL}${END}`, /content-disposition/],
  "a name twice": [part('name="a"; name="model"', "b") + MODEL + END, /content-disposition/],
  "an encoded name": [part(`name="a"; name*=utf-8''model`, "b") + MODEL + END, /content-disposition/],
  "an encoded word as a name": [part('name="=?utf-8?q?model?="', "b") + MODEL + END, /content-disposition/],
  "an encoded word in a name": [part('name="a =?UTF-8?B?bW9kZWw=?="', "b") + MODEL + END, /content-disposition/],
  "brackets in a name without quotes": [part("name=model]", "b") + MODEL + END, /content-disposition/],
  "a parameter in a name": [part('name="a; name=model"', "b") + MODEL + END, /content-disposition/],
  "an equals sign in a name": [part('name="model=a"', "b") + MODEL + END, /content-disposition/],
  "a tab before a parameter": [part('name="a";\tfilename="b; name=model"', "c") + MODEL + END, /content-disposition/],
  "a byte order mark before a name": [part('name="\ufeffmodel"', "b") + MODEL + END, /content-disposition/],
  "a name behind a file": [part('filename="b"; name="model"', "b") + END, /content-disposition/],
  "an escape in a name": [part('name="mo\\del"', "b") + MODEL + END, /content-disposition/],
  "a file name that holds a name": [
    part('name="a"; filename="b"; name="model"', "c") + MODEL + END,
    /content-disposition/,
  ],
  "a coding": [part('name="model"\r\ncontent-transfer-encoding: base64', "aW1n") + END, /transfer-encoding/],
  "another character set": [
    part('name="model"\r\ncontent-type: text/plain; charset=utf-7', "a") + END,
    /not plain text/,
  ],
  "a default character set": [part('name="_charset_"', "utf-7") + MODEL + END, /_charset_/],
  "parts in a part": [
    part('name="a"\r\ncontent-type: multipart/mixed; boundary=y', "b") + MODEL + END,
    /made of parts/,
  ],
  "another length than its own": [part('name="model"\r\ncontent-length: 2', "image-1") + END, /content-length/],
  "a length that is none": [part('name="a"\r\ncontent-length: +2', "ab") + MODEL + END, /content-length/],
  "no value": [part('name="model"', "") + END, /is empty/],
  "a control character in the value": [part('name="model"', "a\tb") + END, /printable ASCII/],
  "a letter outside of ASCII": [part('name="model"', "é") + END, /printable ASCII/],
  "a long value": [part('name="model"', "a".repeat(257)) + END, /longer than 256 bytes/],
  "a long head": [part(`name="${"a".repeat(8192)}"`, "") + MODEL + END, /longer than 8192 bytes/],
  "many parts": [part('name="a"', "").repeat(1000) + MODEL + END, /more than 1000 parts/],
};

gathered(t, "what readers take differently is refused, in the same words however it is cut", async (t) => {
  for (const [name, [form, said]] of Object.entries(REFUSED))
    t.match(refusal(form), new RegExp(`^[^|]*(?:${said.source})[^|]*$`), name);
  t.match(refusal(part('name="model"', "a".repeat(256)) + END), /^found/, "one within the limit is not");
  t.match(refusal(part('name="a"', "").repeat(999) + MODEL + END), /^found/);
});

gathered(t, "checked forms never leave a field ambiguous, nor a whole form before its end", async (t) => {
  const forms = [
    part('name="prompt"', "a cat") + MODEL + part('name="image"; filename="a"', "y".repeat(100)) + END,
    MODEL + part('name="prompt"', "a") + MODEL + END,
    MODEL + END + MODEL + END,
  ];
  for (const form of forms)
    for (const step of [1, 5, 1000]) {
      const body = Buffer.from(form);
      const scanner = new FormScanner("xx", "model", 256);
      const second = body.indexOf('name="model"', body.indexOf("image-1"));
      try {
        for (let at = 0; at < body.length; at += step) {
          scanner.push(body.subarray(at, at + step));
          const judged = body.toString("latin1", 0, scanner.checkedUntil);
          if (!scanner.found) t.notMatch(judged, /image-1/);
          t.notMatch(judged, /--xx--/);
          if (second > 0) t.ok(scanner.checkedUntil <= second, "not the second one");
        }
        t.equal(second, -1);
        scanner.end();
        t.equal(scanner.checkedUntil, body.length);
      } catch (error) {
        t.type(error, FormError);
        t.ok(second > 0);
      }
    }
});

t.test("the boundary is read from the content-type where all parsers read the same one", async (t) => {
  const taken = {
    "multipart/form-data; boundary=abc": "abc",
    'Multipart/Form-Data;charset=utf-8; Boundary="a:b=c"': "a:b=c",
    "multipart/form-data ; boundary=----WebKitFormBoundaryX ": "----WebKitFormBoundaryX",
  };
  for (const [type, boundary] of Object.entries(taken)) t.equal(parseBoundary(type), boundary, type);
  const refused = [
    "multipart/form-data",
    "multipart/form-data; boundary=",
    'multipart/form-data; boundary=""',
    "application/json; boundary=abc",
    "multipart/mixed; boundary=abc",
    "multipart/form-data; boundary=abc; boundary=def",
    'multipart/form-data; x="; boundary=abc"; boundary=def',
    'multipart/form-data; boundary="a\\b"',
    'multipart/form-data; boundary="a b"',
    "multipart/form-data; boundary=a b",
    "multipart/form-data; boundary=abc, multipart/form-data; boundary=def",
    "multipart/form-data; boundary*=utf-8''abc",
    'multipart/form-data; boundary="=?utf-8?q?abc?="',
    "multipart/form-data; boundary=abc; charset=utf-7",
    "multipart/form-data; boundary=abc;",
    `multipart/form-data; boundary=${"a".repeat(71)}`,
    "multipart/form-data; boundary=é",
  ];
  for (const type of refused) t.equal(parseBoundary(type), undefined, type);
});

t.test("short fields are read, split anywhere, and occur once; what is not short text is empty", async (t) => {
  const field = (name: string, value: string) =>
    `--xx\r\ncontent-disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`;
  const read = (form: string, cut: number) => {
    const scanner = new FormScanner("xx", "model", 256, ["n"]);
    const bytes = Buffer.from(form);
    for (let i = 0; i < bytes.length; i += cut) scanner.push(bytes.subarray(i, i + cut));
    scanner.end();
    return Object.fromEntries(scanner.texts);
  };
  const long = "1".repeat(500);
  for (const cut of [1, 7, 64, 10_000]) {
    t.same(read(`${field("a", "b")}${field("n", "3")}${field("model", "m")}--xx--`, cut), { n: "3" });
    t.same(read(`${field("model", "m")}${field("n", long)}${field("b", long)}--xx--`, cut), { n: "" });
    t.same(read(`${field("model", "m")}${field("n", "")}--xx--`, cut), { n: "" });
    t.same(read(`${field("model", "m")}--xx--`, cut), {});
    t.throws(
      () => read(`${field("n", "1")}${field("model", "m")}${field("N", "2")}--xx--`, cut),
      /The field n occurs twice/,
    );
  }
});

t.test("a field that is read is refused in another character set, and any other is not", async (t) => {
  const read = (type: string, name = "n") => {
    const scanner = new FormScanner("xx", "model", 256, ["n"]);
    try {
      scanner.push(Buffer.from(part(`name="${name}"\r\ncontent-type: ${type}`, "3") + MODEL + END));
      return scanner.texts.get("n");
    } catch (error) {
      return `${(error as FormError).field}: ${(error as FormError).message}`;
    }
  };
  for (const charset of ["utf-8", '"UTF8"', "us-ascii", "ISO-8859-1", "utf-8 ; format=flowed"])
    t.equal(read(`text/plain; charset=${charset}`), "3", charset);
  for (const charset of ["=utf-16", '="utf-16"', "=utf-7", "=", '="utf-8', "*=utf-8''utf-16", "=utf-8x", " =utf-16"])
    for (const type of ["text/plain", "application/json", "text/plain; charset=utf-8"])
      t.equal(read(`${type};Charset${charset}`), 'n: The field "n" is in another character set.', type + charset);
  t.equal(read("text/plain; charset=utf-16", "other"), undefined);
});

gathered(t, "a delimiter is found across the chunks of a long value", async (t) => {
  const said = (form: string, step: number) => {
    try {
      return JSON.stringify(scanned(form, step).found);
    } catch (error) {
      return (error as Error).message;
    }
  };
  for (let length = 0; length < 130; length++) {
    const value = "v".repeat(length);
    const file = part('name="file"; filename="a"', value);
    const stray = part('name="file"; filename="a"', `${value}--xx${"v".repeat(60)}`);
    for (const form of [`${file}${MODEL}${END}`, `${stray}${MODEL}${END}`])
      for (const step of [20, 41, 64])
        t.equal(said(form, step), said(form, form.length), `${length}, split every ${step}`);
  }
});

t.test("chunks of a long value are not copied together to be scanned", async (t) => {
  const form = Buffer.from(`${MODEL}${part('name="file"; filename="a"', "v".repeat(1 << 20))}${END}`);
  const { concat } = Buffer;
  let copied = 0;
  t.teardown(() => {
    Buffer.concat = concat;
  });
  Buffer.concat = (...given) => {
    const all = concat(...given);
    copied += all.length;
    return all;
  };
  scanned(form, 1 << 16);
  t.ok(copied < 10_000, `${copied} bytes`);
});

t.test("a receiver gets exactly the value of its part, however the form is cut", async (t) => {
  for (const value of ["", "a", "a\r\nb", "\r\n", "--x", "\r\n--x", "v".repeat(500)])
    for (const step of [1, 2, 7, 41, 1000]) {
      const body = Buffer.from(part('name="file"; filename="a"', value) + MODEL + part('name="file"', "more") + END);
      const values: string[] = [];
      const scanner = new FormScanner("xx", undefined, 0, {
        wants: (name) => name === "model",
        read: () => {},
        receiver: (name) => {
          if (name !== "file") return undefined;
          let text = "";
          return { push: (bytes) => (text += bytes.toString()), end: () => values.push(text) };
        },
      });
      for (let at = 0; at < body.length; at += step) scanner.push(body.subarray(at, at + step));
      scanner.end();
      t.same(values, [value, "more"], `${JSON.stringify(value.slice(0, 9))}, cut every ${step}`);
    }
});
