import t from "tap";
import { redisProblem } from "../../src/config/redis-address.ts";

t.test("addresses of Redis, with and without TLS, user and database", async (t) => {
  for (const url of [
    "redis://h",
    "redis://h:6379/2",
    "rediss://u:p%40w@h",
    "redis://:pw@[::1]:7000/",
    "redis://127.0.0.1",
  ])
    t.equal(redisProblem(url), undefined, url);
});

t.test("what is none, or says what would not be done, is refused without its password", async (t) => {
  for (const [url, why] of [
    ["disk", /write memory, or redis:/],
    ["http://h", /write memory, or redis:/],
    ["redis:", /not an address/],
    ["redis://:secret@", /not an address/],
    ["redis://u:secret@h?db=1", /take no options/],
    ["redis://u:secret@h/zero", /number of a database/],
    ["redis://u:secret%@h", /%25/],
  ] as const) {
    const problem = redisProblem(url);
    t.match(problem, why, url);
    t.notMatch(problem, /secret/);
  }
});
