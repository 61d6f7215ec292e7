import t from "tap";
import { Redactor } from "../../src/core/redactor.ts";

const OURS = "own-Key/1+2=3_a&b<c>'d\"~0123456789";
const redactor = new Redactor([OURS, "Basic dXNlcjpwYXNzd29yZA==", "short"]);

t.test("a credential is found in every encoding, anywhere", async (t) => {
  const escaped = [...OURS].map((letter) => `\\u00${letter.charCodeAt(0).toString(16)}`).join("");
  const percent = [...OURS].map((letter) => `%${letter.charCodeAt(0).toString(16).toUpperCase()}`).join("");
  const html = [...OURS].map((letter) => `&#x${letter.charCodeAt(0).toString(16)};`).join("");
  const named = OURS.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
  const spellings: Record<string, string> = {
    "to the letter": OURS,
    "in JSON": JSON.stringify(OURS).slice(1, -1),
    "in JSON with escaped slashes": JSON.stringify(OURS).slice(1, -1).replaceAll("/", "\\/"),
    "in JSON within JSON": JSON.stringify(JSON.stringify(OURS)).slice(3, -3),
    "each letter escaped": escaped,
    "in an address": encodeURIComponent(OURS),
    "in an address twice": encodeURIComponent(encodeURIComponent(OURS)),
    "each letter of it": percent,
    "as HTML": html,
    "as HTML with names": named,
  };
  for (const [how, spelled] of Object.entries(spellings))
    for (const around of [
      (text: string) => text,
      (text: string) => `x${text}x`,
      (text: string) => `{"error":"${text}."}`,
    ]) {
      t.equal(redactor.text(around(spelled)), around("***"), how);
      t.equal(redactor.bytes(Buffer.from(around(spelled))).toString(), around("***"), how);
    }
  for (const before of ["", "a", "ab", "abc", "user:"])
    for (const behind of ["", "z", "zy", "zyx"])
      for (const alphabet of ["base64", "base64url"] as const) {
        const encoded = Buffer.from(before + OURS + behind).toString(alphabet);
        const core = Buffer.from(OURS).toString("latin1").slice(4, -4);
        const left = Buffer.from(redactor.text(`"${encoded}"`).replaceAll('"', ""), "base64").toString("latin1");
        t.notOk(left.includes(core), `${alphabet} of ${before}…${behind}`);
      }
  t.equal(redactor.text("got Basic dXNlcjpwYXNzd29yZA=="), "got ***");
  t.equal(redactor.text("got dXNlcjpwYXNzd29yZA== from you"), "got *** from you", "without its scheme too");
});

t.test("texts in the form of a key are redacted, whoever owns it", async (t) => {
  const b62 = "aB3dE5gH7jK9mN1pQ3sT5vW7xY9z";
  const keys = [
    `sk-${b62}`,
    `sk-proj-${b62}_${b62}-A`,
    `sk-ant-api03-${b62}`,
    `AIza${b62}01234567`,
    `AIza${b62.slice(0, 16)}`,
    `gsk_${b62}${b62}`,
    `xai-${b62}${b62}`,
    "AKIAIOSFODNN7EXAMPLE",
    `hf_${b62}`,
    `gw_0123456789_${b62}${b62}_abc123`,
    `eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.${b62}`,
    `the-session-token_eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.${b62}`,
    `org-${b62}`,
    `org_01${b62.toLowerCase()}`,
    `proj_${b62}`,
  ];
  for (const key of keys) {
    for (const [before, behind] of [
      ["", ""],
      ['{"message":"Incorrect API key provided: ', '. Find it at https://x.test/keys"}'],
      ["<b>", "</b>"],
      ["key=", "&x=1"],
      ["\\n", "\\n"],
      ["%20", "%20"],
    ] as const)
      t.notMatch(redactor.text(before + key + behind), key.slice(-12), before + key);
  }
  t.equal(redactor.text("Authorization: Bearer 0123456789abcdef0123"), "Authorization: Bearer ***");
  t.equal(redactor.text("at http://me:hunter2@proxy.test:1/"), "at http://***@proxy.test:1/");
  t.equal(redactor.text("GET /v1?key=0123456789ab&alt=sse"), "GET /v1?key=***&alt=sse");
  t.equal(redactor.text("consumer 'project_number:123456789012'"), "consumer 'project_number:***'");
  t.equal(redactor.text("see /overview?project=123456789012 then"), "see /overview?project=*** then");
});

t.test("nothing that has the form of a key is overlooked, in any case and context", async (t) => {
  const b62 = "aB3dE5gH7jK9mN1pQ3sT5vW7xY9z";
  const begins = [
    ...["sk-", "AIza", "AQ.", "ya29.", "gsk_", "xai-", "AKIA", "ASIA", "ABSK", "hf_", "pplx-", "csk_", "nvapi-", "fw_"],
    ...[
      "tgp_v1_",
      "r8_",
      "gho_",
      "ghp_",
      "ghs_",
      "ghu-",
      "gw_0123456789_",
      "eyJhbGciOi.",
      "Bearer ",
      "basic+",
      "bearer%20",
    ],
    ...[
      "org-",
      "proj_",
      "project-",
      "user_",
      "project_number:",
      "projects/",
      "project #",
      "://me:",
      "?key=",
      "&access_token=",
    ],
  ];
  const ends = [b62, "0123456789abcdef", `${b62}${b62}.${b62}@x`, "short"];
  let found = 0;
  for (const begin of begins)
    for (const end of ends)
      for (const text of [
        begin + end,
        begin.toUpperCase() + end.toUpperCase(),
        `at "x-${begin.toLowerCase()}${end}\\n`,
      ]) {
        const clean = text.replace(Redactor.shapes, "***");
        if (clean !== text) found++;
        t.equal(new Redactor([]).text(text), clean, text);
      }
  t.ok(found > 200, String(found));
});

t.test("all other bytes are unchanged, in the same buffer", async (t) => {
  const plain = [
    '{"error":{"message":"Incorrect API key provided: sk-proj-****abcd. You can find your API key at https://x.test/account/api-keys.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}',
    "You need to provide your API key in an Authorization header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY).",
    "Bearer authentication-required-for-this",
    "req_011CSHoEeqs5C35K2UUqR7Fy and 0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0, task-1234567890123456789",
    "user_authentication_failed, organization_must_be_verified, project-with-a-long-name-and-no-digits",
    "short",
    "https://docs.test/projects/new?key=value",
  ];
  for (const text of plain) t.equal(redactor.text(text), text);
  const bytes = Buffer.from([0xff, 0x00, 0xc3, 0x28, 0x0a, ...Buffer.from("ü€")]);
  t.equal(redactor.bytes(bytes), bytes);
  const around = Buffer.concat([bytes, Buffer.from(OURS), bytes]);
  t.same(redactor.bytes(around), Buffer.concat([bytes, Buffer.from("***"), bytes]));
});

t.test("redaction takes linear time for any text", async (t) => {
  const size = 256 * 1024;
  for (const piece of ["\\", "eyJ-", "bearer+", "sk-", "://a:", "%25", "&#000", "?key=", "org-a", OURS.slice(0, 20)]) {
    const text = piece.repeat(size / piece.length);
    const began = process.cpuUsage();
    redactor.text(text);
    const { user } = process.cpuUsage(began);
    // A quadratic search of a quarter of a mebibyte takes minutes.
    t.ok(user < 5e6, `${piece}: ${user / 1000} ms`);
  }
});

t.test("keys that a client has sent are redacted too, in any form, and no shorter texts", async (t) => {
  const redactor = new Redactor([]);
  t.equal(redactor.text('no model "my own $& key", ask for a', ["my own $& key", "a"]), 'no model "***", ask for a');
  t.equal(redactor.text('no model "my own $& key"'), 'no model "my own $& key"');
  t.match(redactor.error(new Error("not my-literal-key"), ["my-literal-key"]), { message: "not ***" });
});
