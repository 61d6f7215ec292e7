import t from "tap";
import protocol from "../../../../plugins/protocols/gemini/index.ts";
import { runAtOnce } from "../../../../src/translation/steps.ts";
import { HeaderList } from "../../../../src/wire/headers.ts";
import { Query } from "../../../../src/wire/query.ts";
import { givenContext, read } from "./requests.ts";

t.test("it recognises its clients by their headers, by the path, or by a key in the query", async (t) => {
  const none = new HeaderList();
  t.ok(protocol.recognises("/", new HeaderList(["X-Goog-Api-Key", "k"])));
  t.ok(protocol.recognises("/", new HeaderList(["x-goog-api-client", "google-genai-sdk/3.1.0"])));
  for (const path of [
    "/v1beta/models",
    "/v1alpha/x",
    "/v1beta1/projects/p",
    "/v1/models/m:generateContent",
    "/models/m%3AcountTokens",
  ])
    t.ok(protocol.recognises(path, none), path);
  for (const path of ["/v1/models", "/v1/models/qwen:7b", "/v1/chat/completions", "/"])
    t.notOk(protocol.recognises(path, none), path);
  t.ok(protocol.recognises("/v1/models", none, new Query("pageSize=5&key=k")));
  for (const query of ["", "key=", "pageSize=5"])
    t.notOk(protocol.recognises("/v1/models", none, new Query(query)), query);
});

t.test("it sends the key to the provider as the vendor documents", async (t) => {
  t.same(protocol.credential("secret"), ["x-goog-api-key", "secret"]);
});

t.test("it hides the client's project and the gateway's model name from the provider", async (t) => {
  for (const name of ["x-goog-user-project", "x-goog-request-params"])
    t.notOk(
      protocol.headers.some((allowed) => name.startsWith(allowed.replace("*", ""))),
      name,
    );
});

t.test("its requests can be translated, and so can counts of tokens", async (t) => {
  const contents = [{ role: "user", parts: [{ text: "Hi" }] }];
  const { request, count } = protocol.translation ?? {};
  const { context: given } = givenContext();
  const { body } = request ? runAtOnce(request.encode(read({ contents }), given)) : {};
  t.same(JSON.parse(body ?? ""), { contents });
  t.equal(count?.decode(count.encode(3)), 3);
});

t.test("its ping is white space, which every parser skips", async (t) => {
  t.equal(protocol.ping.toString(), "\r\n\r\n");
});

const fast = {
  id: "acme/fast",
  name: "Fast",
  description: "Quick.",
  created: 1,
  context: 400_000,
  output: 8000,
  capabilities: ["reasoning"],
  protocols: { gemini: "native", "openai-chat": "translated" },
  price: {},
};
const methods = ["generateContent", "streamGenerateContent", "countTokens"];

t.test("models are listed in the vendor's shape", async (t) => {
  const one = {
    name: "models/acme/fast",
    version: "1",
    displayName: "Fast",
    description: "Quick.",
    inputTokenLimit: 400_000,
    outputTokenLimit: 8000,
    supportedGenerationMethods: methods,
    thinking: true,
  };
  t.same(protocol.listing?.list([fast], new URLSearchParams()), { models: [one] });
  t.same(protocol.listing?.one(fast), one);
});

t.test("a long list comes in pages", async (t) => {
  const models = ["a", "b", "c"].map((id) => ({ ...fast, id }));
  const page = (query: string) => {
    const { models: found, nextPageToken } = protocol.listing?.list(models, new URLSearchParams(query)) as {
      models: { name: string }[];
      nextPageToken?: string;
    };
    return [found.map(({ name }) => name.slice(-1)).join(""), nextPageToken];
  };
  t.same(page(""), ["abc", undefined]);
  t.same(page("pageSize=2"), ["ab", "2"]);
  t.same(page("pageSize=2&pageToken=2"), ["c", undefined]);
  t.same(page("pageSize=5000"), ["abc", undefined]);
  for (const query of ["pageToken=bogus", "pageToken=3", "pageSize=x"])
    t.throws(() => page(query), { code: "invalid_field", param: query.split("=")[0] }, query);
  t.throws(() => page("pageSize=-1"), { message: "pageSize must be a whole number, 0 or more." });
});

t.test("an embedding model generates nothing", async (t) => {
  t.match(protocol.listing?.one({ ...fast, capabilities: ["embeddings"] }), {
    supportedGenerationMethods: ["embedContent", "batchEmbedContents"],
  });
});

t.test("a model lists only those methods that can be called", async (t) => {
  const told = (capabilities: readonly string[], protocols: Record<string, string>) => {
    const one = protocol.listing?.one({ ...fast, capabilities, protocols }) as { supportedGenerationMethods: string[] };
    return one.supportedGenerationMethods;
  };
  t.same(told([], { gemini: "translated" }), methods);
  t.same(told([], { "openai-images": "native" }), []);
  t.same(told(["embeddings"], { "openai-embeddings": "native" }), []);
  t.same(told(["embeddings"], { gemini: "translated" }), [], "embeddings are not translated");
});

t.test("unknown facts of a model are left out", async (t) => {
  t.same(
    protocol.listing?.one({
      ...{ id: "echo", name: "Echo", created: 1, capabilities: [], price: {} },
      protocols: { gemini: "native" },
    }),
    {
      name: "models/echo",
      version: "1",
      displayName: "Echo",
      supportedGenerationMethods: methods,
    },
  );
});
