import { readFileSync } from "node:fs";
import t from "tap";
import protocol from "../../../../plugins/protocols/gemini/index.ts";
import type { GatewayError } from "../../../../src/core/errors.ts";
import { shared } from "../../../support/shared.ts";

/** The operation's name and the model, or the status of the refusal; "unknown" where there is no such path. */
function read(target: string): string {
  const [path = "", query] = target.split("?", 2);
  const mount = protocol.paths.find((pattern) => path.startsWith(pattern.slice(0, -1)));
  if (!mount) return "unknown";
  try {
    const located = protocol.locate(mount, path.slice(mount.length - 1), new URLSearchParams(query));
    return located ? `${located.operation.name} ${located.model}` : "unknown";
  } catch (error) {
    return String((error as GatewayError).status);
  }
}

t.test("every version and both forms of Vertex name a model", async (t) => {
  t.equal(read("/v1beta/models/gemini-x:generateContent"), "generateContent gemini-x");
  t.equal(read("/v1/models/gemini-x:countTokens"), "countTokens gemini-x");
  t.equal(read("/v1alpha/models/gemini-x:embedContent"), "embedContent gemini-x");
  t.equal(read("/v1beta1/publishers/google/models/gemini-x:generateContent"), "generateContent gemini-x");
  t.equal(read("/v1beta1/publishers/anthropic/models/m:generateContent"), "generateContent anthropic/m");
  t.equal(
    read("/v1beta1/projects/p/locations/global/publishers/google/models/m:batchEmbedContents"),
    "batchEmbedContents m",
  );
  t.equal(read("/v1beta1/projects/p/locations/l/publishers/acme/models/m:generateContent"), "generateContent acme/m");
  t.equal(read("/v1beta1/projects/p/locations/l/endpoints/1:generateContent"), "unknown");
});

t.test("a stream is framed as the query asks", async (t) => {
  const framing = (query: string) =>
    protocol.locate("/v1beta/models/*", "m:streamGenerateContent", new URLSearchParams(query))?.operation;
  t.match(framing("alt=sse"), { name: "streamGenerateContent", framing: "sse", streams: true });
  t.match(framing("alt=json"), { name: "streamGenerateContentArray", framing: "array", streams: true });
  t.match(framing(""), { name: "streamGenerateContentArray", framing: "array", streams: true });
});

t.test("generating and counting can be asked for in any protocol, vectors cannot", async (t) => {
  const task = (action: string) =>
    protocol.locate("/v1beta/models/*", `m:${action}`, new URLSearchParams())?.operation.task;
  t.same(["generateContent", "streamGenerateContent", "countTokens", "embedContent", "batchEmbedContents"].map(task), [
    "generate",
    "generate",
    "count",
    undefined,
    undefined,
  ]);
  const events = protocol.locate("/v1beta/models/*", "m:streamGenerateContent", new URLSearchParams("alt=sse"));
  t.equal(events?.operation.task, "generate");
});

t.test("escapes are decoded once, and a model may hold slashes", async (t) => {
  t.equal(read("/v1beta/models/gemini-x%3AgenerateContent"), "generateContent gemini-x");
  t.equal(read("/v1/models/anthropic/m:generateContent"), "generateContent anthropic/m");
  t.equal(read("/v1beta/models/a%2Fb%3AgenerateContent"), "generateContent a/b");
  t.equal(read("/v1beta/models/mod%C3%A8le:generateContent"), "generateContent modèle");
  t.equal(read("/v1beta/models/a;b=c:generateContent"), "generateContent a;b=c");
});

t.test("a name that cannot be one is refused with 400", async (t) => {
  const names = [
    "",
    "a:",
    "a:generateContent",
    "..",
    ".",
    "a/../b",
    "a//b",
    "/a",
    "a/",
    "a%",
    "a%zz",
    "a%252fb",
    "a%00b",
    "a%0d%0aX:%20y",
  ];
  for (const name of [...names, "a%23b", "a%3fkey=x", "a\\b", "%2e%2e%2fb", "%ff"])
    t.equal(read(`/v1beta/models/${name}:generateContent`), "400", name);
  t.equal(read("/v1beta/models/%2e%2e/%2e%2e/files"), "400");
});

t.test("an action that is not served is refused with 404 and told which are", async (t) => {
  const locate = () => protocol.locate("/v1beta/models/*", "m:deleteModel", new URLSearchParams());
  t.throws(locate, {
    code: "path_not_found",
    message: /deleteModel is not served.*generateContent, streamGenerateContent, countTokens/,
  });
});

t.test("a name alone, also one with a colon, asks for no action", async (t) => {
  t.equal(read("/v1/models/gemini-x"), "unknown");
  t.equal(read("/v1/models/qwen:7b"), "unknown");
});

t.test("the provider is asked with the vendor's name, escaped but for its slashes", async (t) => {
  const upstream = (action: string, model: string) =>
    protocol.locate("/v1beta/models/*", `m:${action}`, new URLSearchParams())?.operation.upstream(model);
  t.equal(upstream("generateContent", "gemini-x"), "/models/gemini-x:generateContent");
  t.equal(upstream("streamGenerateContent", "acme/a b?c"), "/models/acme/a%20b%3Fc:streamGenerateContent");
});

const vectors = shared("vectors/own/path-vectors.json");

t.test("path vectors", { skip: !vectors && "no vectors" }, async (t) => {
  const all = JSON.parse(readFileSync(vectors as string, "utf8")) as { target: string; expect: string }[];
  const own = all.filter(({ target }) => target.startsWith("/v1beta/models/"));
  t.ok(own.length > 0);
  // Said of the query or of the whole request, which the engine looks at.
  const elsewhere = (expect: string) => expect.startsWith("400 duplicate");
  for (const { target, expect } of own) {
    const found = read(target);
    if (elsewhere(expect)) continue;
    if (expect === "allow" || expect.startsWith("key used") || expect.startsWith("canonicalise"))
      t.match(found, /^(stream)?[gG]enerateContent(Array)? gemini-x$/, target);
    else if (expect.startsWith("400")) t.equal(found, "400", target);
    else if (expect.startsWith("404")) t.equal(found, "404", target);
    else t.match(found, / a;b=c$/, target);
  }
});
