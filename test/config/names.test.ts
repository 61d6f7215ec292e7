import t from "tap";
import { checkNames } from "../../src/config/names.ts";
import type { Finding } from "../../src/config/problems.ts";

function said(file: unknown): string[] {
  const findings: Finding[] = [];
  const protocols = new Map([
    ["chat", { paths: ["/v1/chat"] }],
    ["messages", { paths: ["/v1/messages"] }],
  ]);
  checkNames(file, protocols, ["llm", "read"], (finding) => findings.push(finding));
  return findings.map(({ path, key, message }) => `${path.join(".")}${key ? "!" : ""} ${message}`);
}

const provider = { url: "https://x/v1", speaks: ["chat"] };

t.test("a file whose names all exist is valid", async (t) => {
  t.same(
    said({
      providers: { one: provider, two: { url: "https://x", protocol: "messages" }, demo: { url: "demo:" } },
      models: {
        a: { targets: ["one:x:free", { to: "two:y" }], fallback: ["b"], aliases: ["c", "d-*"], via: "chat" },
        b: { targets: ["demo:z"] },
      },
      keys: { ci: { key: "$CI", models: ["a"] } },
      paths: {
        "/": { serve: "pages" },
        "/v1/chat": { protocol: "chat", use: "llm" },
        "/v1/models/*": { serve: "models", use: "read" },
        "/v1/audio/*": { pass: "one", use: ["auth"], open: true, mint: true },
        "/v1/moderations": { pass: "one" },
        "/vendors/one/*": { pass: "one", use: "read" },
        "/v1/messages": "off",
        "/v1/models": { use: ["auth"] },
      },
    }),
    [],
  );
});

t.test("a target refers to a provider and a model", async (t) => {
  const models = (target: unknown) => ({ providers: { one: provider }, models: { a: { targets: [target] } } });
  t.same(said(models("oen:x")), ['models.a.targets.0 unknown provider "oen", did you mean "one"?']);
  t.same(said(models({ to: "oen:x", weight: 1 })), [
    'models.a.targets.0.to unknown provider "oen", did you mean "one"?',
  ]);
  for (const target of ["one", ":x", "one:", ""])
    t.same(said(models(target)), [`models.a.targets.0 "${target}" is not a target; write provider:vendor-model`]);
});

t.test("scrub's aggregators are providers of this file", async (t) => {
  const file = (...aggregators: string[]) => ({ providers: { one: provider }, plugins: { scrub: { aggregators } } });
  t.same(said(file("one")), []);
  t.same(said(file("one", "oen")), ['plugins.scrub.aggregators.1 unknown provider "oen", did you mean "one"?']);
});

t.test("fallbacks and the models of keys must be models of this file", async (t) => {
  const file = {
    models: { smart: { fallback: ["smrat", "smart"] }, fast: {} },
    keys: { ci: { key: "$CI", models: ["fats"] } },
  };
  t.same(said(file), [
    'models.smart.fallback.0 unknown model "smrat", did you mean "smart"?',
    "models.smart.fallback.1 a model cannot fall back to itself",
    'keys.ci.models.0 unknown model "fats", did you mean "fast"?',
  ]);
});

t.test("protocols and chains must exist wherever they are named", async (t) => {
  const file = {
    providers: { one: { url: "https://x", speaks: ["chta"] }, two: { url: "https://x", protocol: "mesages" } },
    models: { a: { via: "caht", targets: [{ to: "one:x", via: "mesages" }] } },
    paths: { "/x": { protocol: "chatt", use: "lmm" } },
  };
  t.same(said(file), [
    'providers.one.speaks.0 unknown protocol "chta", did you mean "chat"?',
    'providers.two.protocol unknown protocol "mesages", did you mean "messages"?',
    'models.a.targets.0.via unknown protocol "mesages", did you mean "messages"?',
    'models.a.via unknown protocol "caht", did you mean "chat"?',
    'paths./x.protocol unknown protocol "chatt", did you mean "chat"?',
    'paths./x.use unknown chain "lmm", did you mean "llm"?',
  ]);
});

t.test("a provider lists each protocol once", async (t) => {
  t.same(said({ providers: { one: { url: "https://x" } } }), [
    'providers.one! "speaks" is missing: a list of chat, messages',
  ]);
  t.same(said({ providers: { one: { ...provider, protocol: "chat" } } }), [
    'providers.one.protocol! "protocol" is short for "speaks"; keep one',
  ]);
  t.same(
    said({ providers: { one: { url: "https://x", speask: ["chat"] } } }),
    [],
    "a misspelt key is reported elsewhere",
  );
  t.same(said({ providers: { demo: { url: "demo:" } } }), [], "the built-in provider speaks everything");
});

t.test("an alias refers to one model", async (t) => {
  t.same(said({ models: { a: { aliases: ["b", "x", "x"] }, b: { aliases: ["x", "y*z"] } } }), [
    'models.a.aliases.0 "b" is the name of a model; take another alias, or leave it out',
    'models.a.aliases.2 "x" is an alias of "a" already; keep one',
    'models.b.aliases.0 "x" is an alias of "a" already; keep one',
  ]);
});

t.test("a key is given as itself or as its hash", async (t) => {
  t.same(said({ keys: { a: {}, b: { key: "$K", hash: "x" }, c: { hahs: "x" } } }), [
    'keys.a! "key" is missing (or "hash": its SHA-256 in hex)',
    'keys.b.hash! "key" and "hash" say the same; keep one',
  ]);
});

t.test("a name that may be a key is reported, without repeating it", async (t) => {
  const secret = "team-s3cret-Zq81xWv90Pl";
  for (const entry of ["alice", null, { key: "alice" }, { group: "eng" }])
    t.match(
      said({ keys: { [secret]: entry } })[0],
      /^keys\.\S+! this name may be a key itself; write a name first, [^Z]*$/,
    );
  t.same(said({ keys: { "production-batch-worker-2": { key: "$K" }, "team-of-alice": { key: "short" } } }), []);
});

t.test("a path is plain and has one action", async (t) => {
  const path = (name: string, entry: object = { protocol: "chat" }) => said({ paths: { [name]: entry } });
  for (const name of ["/v1/*/x", "/v1/x*", "/v*/x"])
    t.same(path(name), [`paths.${name}! * can only be the last segment of a path`]);
  for (const name of ["/v1/../x", "/./x"]) t.same(path(name), [`paths.${name}! a path has no . or .. segments`]);
  for (const name of ["/v1/", "/v1//x"])
    t.same(path(name), [`paths.${name}! a path has no empty segments and does not end in /`]);
  t.same(path("/x", { protocol: "chat", serve: "models" }), [
    'paths./x.serve! a path has only one of "protocol", "serve" and "pass"; leave out the others',
  ]);
  t.same(path("/x/*", { serve: "models", pass: "one" }), [
    'paths./x/*.pass unknown provider "one"; none is known',
    'paths./x/*.pass! a path has only one of "protocol", "serve" and "pass"; leave out the others',
  ]);
  t.same(path("/x", { use: "llm" }), [
    'paths./x! "protocol" is missing: one of chat, messages (or "serve": a plugin, like on /v1/models, or "pass": a provider)',
  ]);
});

t.test("a pass path names a provider, and may have paths below it", async (t) => {
  const path = (name: string, entry: object) => said({ providers: { one: provider }, paths: { [name]: entry } });
  t.same(path("/x/*", { pass: "oen" }), ['paths./x/*.pass unknown provider "oen", did you mean "one"?']);
  t.same(path("/x", { pass: "one" }), ['paths./x! a path with "pass" ends in /*, or begins with a version like /v1']);
  t.same(path("/x", { protocol: "chat", open: true, mint: false }), [
    'paths./x.open! "open" has no effect without "pass"; leave it out',
    'paths./x.mint! "mint" has no effect without "pass"; leave it out',
  ]);
});

t.test("settings of a path must suit its kind", async (t) => {
  const demo = { url: "demo:" };
  const path = (entry: object) => said({ providers: { one: provider, demo }, paths: { "/x/*": entry } });
  t.same(path({ pass: "one", strict: true }), ['paths./x/*.strict! "strict" has no effect with "pass"; leave it out']);
  t.same(path({ serve: "own", strict: true }), [
    'paths./x/*.strict! "strict" has no effect with "serve"; leave it out',
  ]);
  t.same(path({ protocol: "chat", strict: true }), []);
  t.same(path({ pass: "demo" }), [
    'paths./x/*.pass "pass" needs a provider with an http url, which the built-in one does not have',
  ]);
});

t.test("credentials of clients cannot be forwarded", async (t) => {
  const forward = (...headers: string[]) => said({ providers: { one: { ...provider, forward: headers } } });
  const why = 'cannot be forwarded: it carries the gateway key of the client; the provider gets its "credential"';
  t.same(forward("Authorization", "x-acme-*", "cookie"), [
    `providers.one.forward.0 Authorization ${why}`,
    `providers.one.forward.2 cookie ${why}`,
  ]);
});

t.test("a model's protocol must be one of a target's provider", async (t) => {
  const providers = { one: provider, two: { url: "https://x", protocol: "messages" }, demo: { url: "demo:" } };
  const model = (entry: object) => said({ providers, models: { a: entry } });
  t.same(model({ via: "messages", targets: ["one:x", "one:y"] }), [
    "models.a.via the providers of its targets do not speak messages; write one of chat",
  ]);
  t.same(model({ via: "messages", targets: ["one:x", "two:y"] }), [], "one is enough");
  t.same(model({ via: "messages", targets: ["demo:x"] }), [], "the built-in one speaks all");
  t.same(model({ targets: [{ to: "one:x", via: "messages" }, "two:y"] }), [
    'models.a.targets.0.via provider "one" does not speak messages; write one of chat',
  ]);
  t.same(
    model({ via: "messages", targets: [{ to: "one:x", via: "chat" }] }),
    [],
    "targets with their own protocol do not count",
  );
});

t.test("__proto__ is not a name", async (t) => {
  t.same(said(JSON.parse('{"models":{"__proto__":{}}}')), ["models.__proto__! not a name"]);
});

t.test("values of any other type are ignored", async (t) => {
  for (const odd of [null, 5, "x", [], [[]], { a: null }, { a: [] }, { a: "x" }])
    t.same(said({ providers: odd, models: odd, paths: Array.isArray(odd) ? odd : null, keys: odd }), []);
  t.same(said({ models: { a: { targets: [5, null, { to: 5 }, []], fallback: "x", aliases: [1] } } }), []);
});

t.test("off only removes existing paths", async (t) => {
  t.same(said({ paths: { "/v1/mesages": "off" } }), [
    'paths./v1/mesages! unknown path "/v1/mesages", did you mean "/v1/messages"?',
  ]);
});

t.test("a key's group that resembles one with limits is reported, because the key escapes them", async (t) => {
  const of = (group: string) =>
    said({
      providers: { one: provider },
      models: { a: { targets: ["one:x"] } },
      keys: { ci: { key: "$CI", group } },
      limits: { groups: { eng: {}, acme: {}, "acme/research": {}, "team-1": {} } },
    });
  t.same(of("engg"), ['keys.ci.group no limits are set for the group "engg", did you mean "eng"?']);
  t.match(of("engg/web"), [/the group "engg", did you mean "eng"/]);
  t.match(of("acme/reserch/alice"), [/the group "acme\/reserch", did you mean "acme\/research"/]);
  for (const right of ["eng", "eng/web", "acme/web", "acme/research/x", "team-2", "sales"])
    t.same(of(right), [], right);
});
