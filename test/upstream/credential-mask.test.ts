import t from "tap";
import { CredentialMask } from "../../src/upstream/credential-mask.ts";

const SECRET = "sk-proj-0123456789-abcdefghijklm";
const maskOf = (secret: string) => CredentialMask.of({ label: "A", secret, account: "p/A" });
const STARS = "*".repeat(SECRET.length);

/** What a body becomes that comes in pieces. */
function masked(pieces: readonly string[], secret = SECRET): string {
  const mask = maskOf(secret);
  const bytes = pieces.map((piece) => Buffer.from(piece));
  for (const piece of bytes) mask?.apply(piece);
  return Buffer.concat(bytes).toString();
}

t.test("each occurrence is masked, at the same length, and everything else is unchanged", async (t) => {
  const text = `{"a":"${SECRET}","b":"${SECRET}${SECRET}ü"} ${SECRET.slice(0, -1)} ${SECRET.toUpperCase()}`;
  t.equal(masked([text]), text.replaceAll(SECRET, STARS));
  const mask = maskOf(SECRET) as CredentialMask;
  const bytes = Buffer.from(text);
  t.equal(mask.masked(bytes).toString(), text.replaceAll(SECRET, STARS));
  t.equal(bytes.toString(), text, "a copy");
  t.same([mask.isIn(bytes), mask.isIn(Buffer.from(SECRET.slice(1)))], [true, false]);
});

t.test("however pieces cut it, no more than its beginning passes", async (t) => {
  const text = `${SECRET.slice(0, 5)}${SECRET}, and ${SECRET} `;
  for (let first = 0; first <= text.length; first++)
    for (let second = first; second <= text.length; second++) {
      const got = masked([text.slice(0, first), text.slice(first, second), text.slice(second)]);
      t.equal(got.length, text.length);
      if (got.includes(SECRET.slice(0, 17)) || got.includes(SECRET.slice(16)) || !/^sk-pr.*, and .* $/.test(got))
        t.fail(`${first} ${second}: ${got}`);
    }
  t.equal(masked([...text]).replaceAll(/[^*]/g, "").length, 2 * (SECRET.length - 16), "in single bytes");
});

t.test("a text that only begins like it is unchanged up to the beginning that keys of a vendor share", async (t) => {
  for (const text of ["sk-proj-", "sk-proj-01234567 is the beginning", `sk-proj-${SECRET.slice(0, 16)}!`, "sss"])
    t.equal(masked([...text]), text);
  t.equal(masked([SECRET.slice(0, 20), "!"]), `${SECRET.slice(0, 16)}****!`);
});

t.test("credentials of any length are found, but short ones, which may be words", async (t) => {
  for (const length of [20, 255, 256, 257, 600, 2000]) {
    const secret = Array.from({ length }, (_, i) => String.fromCharCode(97 + ((i * i) % 23))).join("");
    const text = `a ${secret} b ${secret}`;
    t.equal(masked([text], secret), text.replaceAll(secret, "*".repeat(length)), String(length));
  }
  t.equal(maskOf("not-needed"), undefined);
  t.equal(CredentialMask.of(undefined), undefined);
});
