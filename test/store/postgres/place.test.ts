import { writeFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { displayUrl, type PostgresSettings, parsePostgresUrl } from "../../../src/store/postgres/place.ts";

const read = (text: string, folder = "/etc/gateway") => parsePostgresUrl(text, folder);

t.test("an address contains how a database is reached", async (t) => {
  t.same(read("postgres://gate:p%40ss%23@db.test/usage"), {
    ...{ host: "db.test", port: 5432, user: "gate", password: "p@ss#", database: "usage" },
    ...{ tls: { mode: "prefer" }, application: "model-gateway", connectTimeout: 5 },
  });
  t.match(read("postgresql://u@[::1]:6000/d?application_name=one&connect_timeout=20&sslmode=require"), {
    ...{ host: "::1", port: 6000, application: "one", connectTimeout: 20, tls: { mode: "require" } },
  });
  const socket = { host: "/run/postgresql", user: "u", database: "d", tls: { mode: "disable" } };
  t.match(read("postgres:///d?host=/run/postgresql&user=u"), socket);
  t.match(read("postgres://u@%2Frun%2Fpostgresql/d"), socket);
});

t.test("it is displayed without a password", async (t) => {
  for (const [text, shown] of [
    ["postgres://u:secret@h/d", "postgres://u@h:5432/d"],
    ["postgres://u:secret@[::1]:1/d", "postgres://u@[::1]:1/d"],
    ["postgres:///d?host=/run/x&user=u&password=secret", "postgres:///d?host=/run/x&user=u"],
    ["postgres:///d?host=/run/x&port=6000&user=u", "postgres:///d?host=/run/x&port=6000&user=u"],
  ] as const)
    t.equal(displayUrl(read(text) as PostgresSettings), shown);
});

t.test("unsupported settings are errors, and wrong values are never repeated", async (t) => {
  const secret = "dont-show-me";
  for (const [text, said] of [
    [`postgres://u:${secret}@h1,h2/d`, /one host/],
    [`postgres://u:${secret}@h1:1,h2:2/d`, /not an address/],
    [`postgres://u:${secret}#@h/d`, /no # part|not an address/],
    [`postgres://u:${secret}@h`, /names no database/],
    [`postgres://:${secret}@h/d`, /names no user|not an address/],
    [`postgres://u:%zz${secret}@h/d`, /%25/],
    [`postgres://u:${secret}@h/d?sslmode=allow`, /sslmode=allow is not done/],
    [`postgres://u:${secret}@h/d?sslmode=${secret}`, /sslmode=… is not done/],
    [`postgres://u:${secret}@h/d?ssl=true`, /"ssl" .* is not known/],
    [`postgres://u:${secret}@h/d?options=-csearch_path%3Dx`, /"options" .* is not known/],
    [`postgres://u:${secret}@h/d?sslmode=require&sslmode=disable`, /sslmode twice/],
    [`postgres://u:${secret}@h/d?sslrootcert=/x`, /needs sslmode/],
    [`postgres://u:${secret}@h/d?sslmode=verify-full&sslrootcert=/no/file`, /cannot be read: ENOENT/],
    [`postgres://u:${secret}@h/d?sslmode=require&sslcert=/x`, /come together/],
    [`postgres://u:${secret}@h/d?connect_timeout=0`, /connect_timeout .* whole number/],
    [`postgres:///d?host=/run/x&user=u&password=${secret}&sslmode=require`, /has no TLS/],
    ["postgres:///d?user=u", /names no host/],
  ] as const) {
    const found = read(text);
    t.match(found, said, text);
    t.notMatch(String(found), secret);
  }
});

t.test("certificate files are read, relative to gateway.yaml", async (t) => {
  const folder = t.testdir();
  for (const name of ["ca", "cert", "key"]) writeFileSync(join(folder, `${name}.pem`), name);
  const files = "sslrootcert=ca.pem&sslcert=cert.pem&sslkey=key.pem";
  const tls = (mode: string) => (read(`postgres://u@h/d?sslmode=${mode}&${files}`, folder) as PostgresSettings).tls;
  t.same(tls("verify-full"), { mode: "verify-full", ca: "ca", cert: "cert", key: "key" });
  t.equal(tls("require").mode, "verify-ca", "a configured authority implies verification");
});
