// biome-ignore-all lint/suspicious/noTemplateCurlyInString: ${NAME} is the notation of gateway.yaml
import t from "tap";
import { resolveOptions } from "../../src/config/options.ts";
import type { Finding } from "../../src/config/problems.ts";
import { complaint, complaints, load, MINIMAL_CONFIG } from "./fixture.ts";

const env = { REGION: "eu-secret-7", PORT: "8080" };

t.test("references in a plugin's options are resolved before its schema is applied, at any depth", async (t) => {
  const found: Finding[] = [];
  const options = {
    a: "$REGION",
    list: ["${PORT}", { b: "at ${GONE:-home}" }],
    n: 5,
    none: null,
    budget: "$50/month",
    pattern: "^x$",
  };
  const folder = t.testdir({ secret: "from a file\n" });
  const { values } = resolveOptions({ ...options, c: "$file:secret" }, ["plugins", "p"], {
    env,
    folder,
    report: (finding) => found.push(finding),
  });
  t.same(values, {
    ...options,
    a: "eu-secret-7",
    list: ["8080", { b: "at home" }],
    c: "from a file",
  });
  t.same(found, []);
  const config = await load(t, `${MINIMAL_CONFIG}plugins: { region: { region: $REGION } }\n`, env);
  t.same(config.plugins.get("region")?.options, { region: "eu-secret-7" });
});

t.test("an unresolved reference is reported at its position, with all other mistakes", async (t) => {
  const yaml = `${MINIMAL_CONFIG}plugins:\n  region: { region: $GONE }\n  sse: { ping: 0 }\n  scrub: { mode: "$file:gone" }\n`;
  const said = await complaints(t, yaml);
  t.match(said, [
    '4:21 GONE is not set; set it, or write "${GONE:-default}"',
    /^5:16 /,
    /^6:18 there is no file .*gone/,
  ]);
  t.equal(said.length, 3);
});

t.test("a refused value is shown as in the file, never resolved", async (t) => {
  const said = await complaint(
    t,
    `${MINIMAL_CONFIG}plugins:\n  scrub: { mode: $REGION }\n  sse: { ping: $REGION }\n`,
    env,
  );
  t.match(said, /4:18 .*found the text "\$REGION"|4:18 .*"\$REGION"/);
  t.notMatch(said, /eu-secret-7/);
});

t.test("where a reference's value is wrong, the message says so, and not how to write it in the file", async (t) => {
  const yaml = `${MINIMAL_CONFIG}plugins: { sse: { ping: $PING }, auth: { anonymous: $OPEN } }\n`;
  t.same(await complaints(t, yaml, { PING: "secret-word", OPEN: "yes" }), [
    '3:25 expected a number, found the text "$PING"; the value of $PING is wrong',
    '3:53 expected true or false, found the text "$OPEN"; the value of $OPEN is wrong',
  ]);
});

t.test("a resolved reference becomes the number or boolean that the schema requires", async (t) => {
  const yaml = `${MINIMAL_CONFIG}plugins: { sse: { ping: "\${PING:-12}" }, auth: { anonymous: $OPEN } }\n`;
  const { plugins } = await load(t, yaml, { OPEN: "false" });
  t.same(plugins.get("sse")?.options, { ping: 12 });
  t.same(plugins.get("auth")?.options, { anonymous: false });
  t.match(await complaints(t, yaml, { OPEN: "no", PING: "0" }), [
    "3:25 must be 1 or more",
    '3:61 expected true or false, found the text "$OPEN"',
  ]);
  t.match(await complaints(t, `${MINIMAL_CONFIG}plugins: { sse: { ping: "12" } }\n`), [/write it without quotes/]);
});
