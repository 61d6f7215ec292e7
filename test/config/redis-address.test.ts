import { join } from "node:path";
import t from "tap";
import { parseRedisAddress } from "../../src/config/redis-address.ts";
import { certificate, key } from "../support/tls.ts";

t.test("addresses of Redis, with and without TLS, user and database", async (t) => {
  for (const url of [
    "redis://h",
    "redis://h:6379/2",
    "rediss://u:p%40w@h",
    "redis://:pw@[::1]:7000/",
    "redis://127.0.0.1",
  ])
    t.same(parseRedisAddress(url, "/"), { url });
});

t.test("certificate files are opened, relative to the folder of gateway.yaml", async (t) => {
  const folder = t.testdir({
    "ca.pem": certificate,
    "key.pem": key,
    "not.pem": "nothing",
    "bad.pem": `${certificate.slice(0, 99)}\n`,
  });
  const url = (file: string) => encodeURIComponent(join(folder, file));
  t.same(parseRedisAddress("rediss://h/1?cacert=ca.pem", folder), { url: `rediss://h/1?cacert=${url("ca.pem")}` });
  t.same(parseRedisAddress("rediss://u:p@h?cacert=./ca.pem&cert=ca.pem&key=key.pem", folder), {
    url: `rediss://u:p@h?cacert=${url("ca.pem")}&cert=${url("ca.pem")}&key=${url("key.pem")}`,
  });
  for (const [query, why] of [
    ["cacert=none.pem", /cacert: .*none\.pem cannot be read: ENOENT/],
    ["cacert=not.pem", /no certificate in the file/],
    ["cacert=bad.pem", /cannot be used|no certificate/],
    ["cert=ca.pem&key=not.pem", /cannot be used/],
    ["cert=ca.pem", /come together/],
    ["cacert=ca.pem&cacert=ca.pem", /has cacert twice/],
    ["sslrootcert=ca.pem", /no options but cacert, cert, key/],
  ] as const)
    t.match(parseRedisAddress(`rediss://u:secret@h?${query}`, folder), { problem: why }, query);
  t.match(parseRedisAddress("redis://h?cacert=ca.pem", folder), { problem: /write rediss:/ });
});

t.test("an invalid address, or one with unsupported parts, is refused without its password", async (t) => {
  for (const [url, why] of [
    ["disk", /write memory, or redis:/],
    ["http://h", /write memory, or redis:/],
    ["redis:", /not an address/],
    ["redis://:secret@", /not an address/],
    ["redis://u:secret@h?db=1", /take no options/],
    ["redis://u:secret@h#1", /no # part/],
    ["redis://u:secret@h/zero", /number of a database/],
    ["redis://u:secret%@h", /%25/],
  ] as const) {
    const told = parseRedisAddress(url, "/");
    t.match(told, { problem: why }, url);
    t.notMatch(JSON.stringify(told), /secret/);
  }
});
