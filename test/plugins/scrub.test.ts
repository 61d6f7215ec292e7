import t from "tap";
import { type CatalogueEntry, catalogue } from "../../plugins/scrub/catalogue.ts";
import Scrub from "../../plugins/scrub.ts";
import { buildPlugin } from "../../src/container.ts";
import { Attempt } from "../../src/core/attempt.ts";
import { GatewayError } from "../../src/core/errors.ts";
import { Marketplace, type Target } from "../../src/core/marketplace.ts";
import { HeaderList } from "../../src/wire/headers.ts";
import { containerWith } from "../support/container.ts";
import { MemoryLog } from "../support/gateway.ts";
import { gathered } from "../support/gathered.ts";
import { recorded } from "../support/recorded.ts";
import { shared } from "../support/shared.ts";
import { type Asked, bodyOf, exchange, model, PROTOCOLS, pass, scrub } from "./scrub/support.ts";

const SECRET = "sk-very-secret-7f3a";

/** A value that makes a body member a mark of its entry. */
const VALUES: Record<string, string> = {
  object: `{"a":"${SECRET}"}`,
  array: `["${SECRET}"]`,
  true: "true",
  false: "false",
};

/** A request that carries one pattern of an entry, the same without it, and the mark's name. */
function example(entry: CatalogueEntry, pattern: string): { carries: Asked; clean: Asked; name: string } | undefined {
  const protocol = entry.only?.[0] ?? PROTOCOLS.find((name) => !entry.native?.includes(name)) ?? "";
  const name = pattern.replace("*", "some-thing");
  if (entry.where === "header")
    return {
      carries: { protocol, headers: ["Accept", "x", name, SECRET] },
      clean: { protocol, headers: ["Accept", "x"] },
      name,
    };
  if (entry.where === "query")
    return { carries: { protocol, query: `alt=sse&${name}=${SECRET}` }, clean: { protocol, query: "alt=sse" }, name };
  if (entry.where === "model") {
    const mark = pattern.replace("*", "");
    const asked = pattern.startsWith("*") ? `fast${mark}` : `${mark}fast`;
    return { carries: { protocol, asked }, clean: { protocol, asked: "fast" }, name: mark };
  }
  if (entry.where !== "body") return undefined;
  const value = VALUES[entry.kinds?.[0] ?? "object"];
  const [outer, inner] = name.split(".");
  const member = inner === undefined ? `"${name}":${value}` : `"${outer}":{"mine":"a","${inner}":${value}}`;
  const rest = inner === undefined ? "" : `,"${outer}":{"mine":"a"}`;
  return {
    carries: { protocol, body: `{"model":"fast",${member},"n":1}` },
    clean: { protocol, body: `{"model":"fast"${rest},"n":1}` },
    name,
  };
}

function refused(act: () => unknown): GatewayError | undefined {
  try {
    act();
  } catch (thrown) {
    if (thrown instanceof GatewayError) return thrown;
    throw thrown;
  }
  return undefined;
}

/** What of an exchange goes upstream. */
const goes = (plugin: Scrub, asked: Asked) => {
  const passed = pass(plugin, exchange(asked));
  return {
    headers: passed.headers.lines,
    query: passed.query.toString(),
    asked: passed.requestedModel,
    body: JSON.parse(bodyOf(passed)) as unknown,
  };
};
const untouched = ({ headers = [], query = "", asked, body = "{}" }: Asked) => ({
  headers,
  query,
  asked,
  body: JSON.parse(body) as unknown,
});
const lets = scrub({ mode: "report" });

gathered(t, "every mark of the catalogue", async (t) => {
  for (const entry of catalogue)
    for (const pattern of entry.match) {
      const given = example(entry, pattern);
      if (!given) continue;
      const { carries, clean, name } = given;
      const title = `${entry.where} ${pattern} of ${entry.owner}`;
      t.same(goes(scrub(), carries), goes(lets, clean), `strip removes ${title}`);
      t.same(goes(lets, carries), { ...goes(lets, carries), ...untouched(carries) }, `report leaves ${title}`);
      const error = refused(() => pass(scrub({ mode: "reject" }), exchange(carries)));
      if (entry.quiet) {
        t.equal(error, undefined, `reject does not refuse ${title}`);
        t.same(goes(scrub({ mode: "reject" }), carries), goes(lets, clean), `reject removes ${title} quietly`);
      } else {
        t.equal(error?.code, "foreign_field", `reject refuses ${title}`);
        t.equal(error?.status, 400);
        t.match(error?.message, `belongs to ${entry.owner}, not to this gateway`);
        t.match(error?.message, `"${name}"`, "and names the field");
        t.equal(error?.param, entry.where === "model" ? "model" : name);
      }
      t.notMatch(JSON.stringify([error?.message, error?.param]), SECRET, "no value in a refusal");
      for (const mode of ["strip", "report"]) {
        const log = new MemoryLog();
        const passed = pass(scrub({ mode }, [model("fast")], log), exchange(carries));
        const said = JSON.stringify([passed.notices, log.lines]);
        t.notMatch(said, SECRET, "no value in a notice or the log");
        if (entry.quiet) t.same(passed.notices, [], "a quiet one is not reported");
        else t.match(passed.notices, [`${name} (${entry.owner})`], `${mode} reports ${title}`);
      }
    }
});

t.test("the protocols' own fields are never changed", async (t) => {
  // Top-level members of each protocol's documented request; those that are also somebody's mark elsewhere matter most.
  const own: Record<string, string> = {
    "openai-chat":
      "model messages max_completion_tokens max_tokens n temperature top_p presence_penalty frequency_penalty stop seed logprobs top_logprobs logit_bias response_format tools tool_choice parallel_tool_calls reasoning_effort verbosity modalities audio prediction service_tier store metadata user safety_identifier prompt_cache_key prompt_cache_retention prompt_cache_options moderation web_search_options stream stream_options functions function_call top_k top_a min_p repetition_penalty thinking enable_thinking chat_template_kwargs safe_prompt search_settings",
    "openai-completions":
      "model prompt suffix max_tokens temperature top_p n stream stream_options logprobs echo stop presence_penalty frequency_penalty best_of logit_bias user seed",
    "openai-responses":
      "model input instructions previous_response_id conversation store include reasoning text tools tool_choice parallel_tool_calls max_output_tokens max_tool_calls temperature top_p top_logprobs truncation metadata service_tier background prompt context_management prompt_cache_key prompt_cache_options prompt_cache_retention safety_identifier user stream stream_options",
    "openai-images":
      "model prompt n size quality style response_format user background moderation output_compression output_format partial_images stream images image mask input_fidelity",
    "openai-embeddings":
      "model input dimensions encoding_format user input_type truncation output_dtype output_dimension",
    "anthropic-messages":
      "model max_tokens messages system tools tool_choice thinking output_config output_format stop_sequences temperature top_p top_k metadata service_tier speed cache_control container context_management fallbacks mcp_servers inference_geo diagnostics stream",
    gemini:
      "contents systemInstruction system_instruction tools toolConfig safetySettings generationConfig cachedContent labels serviceTier store continuationToken model modelArmorConfig generateContentRequest requests content taskType title outputDimensionality",
  };
  for (const protocol of PROTOCOLS)
    for (const kind of ['{"a":1}', '["a"]', '"a"', "1", "true"]) {
      const body = `{ ${(own[protocol] ?? "")
        .split(" ")
        .map((name) => `"${name}" : ${kind}`)
        .join(" , ")} }`;
      const passed = pass(scrub({ mode: "reject" }), exchange({ protocol, body }));
      t.equal(bodyOf(passed), body, `${protocol}, all members ${kind}`);
    }
});

t.test("recorded requests of the vendors themselves pass unchanged", { skip: !shared("recordings") }, async (t) => {
  const vendors: Record<string, [folder: string, vendor: string]> = {
    "openai-chat": ["openai-chat", "openai"],
    "openai-completions": ["openai-completions", "openai"],
    "openai-responses": ["openai-responses", "openai"],
    "openai-images": ["openai-images", "openai"],
    "openai-embeddings": ["openai-embeddings", "openai"],
    "anthropic-messages": ["anthropic", "anthropic"],
    gemini: ["gemini", "google"],
  };
  const plugin = scrub({ mode: "reject" });
  let seen = 0;
  for (const [protocol, [folder, vendor]] of Object.entries(vendors)) {
    for (const { id, vendor: its, request } of recorded(folder)) {
      if (its !== vendor || typeof request !== "object") continue;
      const body = JSON.stringify(request);
      seen++;
      if (bodyOf(pass(plugin, exchange({ protocol, body }))) !== body) t.fail(`${id} is changed`);
    }
  }
  t.ok(seen > 500, `${seen} requests`);
});

t.test("a field of one protocol is a mark only in the others", async (t) => {
  const body = '{"model":"fast","reasoning":{"effort":"low"},"cache_control":{"type":"ephemeral"},"fallbacks":["x"]}';
  const left = (protocol: string) =>
    Object.keys(JSON.parse(bodyOf(pass(scrub(), exchange({ protocol, body }))))).slice(1);
  t.same(left("openai-completions"), []);
  t.same(left("openai-responses"), ["reasoning"]);
  t.same(left("anthropic-messages"), ["cache_control", "fallbacks"]);
});

t.test("bytes outside the marks stay unchanged, in any place and spelling", async (t) => {
  const cases: [given: string, left: string][] = [
    ['{"provider":1}', "{}"],
    ['{ "provider" : {"only":["a,b","}"]} , "model" : "fast" }', '{ "model" : "fast" }'],
    ['{"model":"fast","big":12345678901234567890,"route":"x"}', '{"model":"fast","big":12345678901234567890}'],
    ['{"a":1.0,"pro\\u0076ider":"x","b":"\\ud83d\\ude00 é"}', '{"a":1.0,"b":"\\ud83d\\ude00 é"}'],
    ['{"models":[],"plugins":[],"a":[{"provider":1}],"route":""}', '{"a":[{"provider":1}]}'],
    ['{"metadata":{"tags":["a"],"tags":["b"],"user_id":"1"}}', '{"metadata":{"user_id":"1"}}'],
    ['{"metadata":{"half \\ud800":1,"tags":["a"]}}', '{"metadata":{"half \\ud800":1}}'],
  ];
  const squeeze = (json: string) => json.replaceAll(" ", "");
  for (const [given, left] of cases) {
    const out = bodyOf(pass(scrub(), exchange({ body: given })));
    t.equal(squeeze(out), squeeze(left), given);
    t.equal(bodyOf(pass(scrub(), exchange({ body: out }))), out, "a second run changes nothing");
  }
});

t.test(
  "a client's own credentials of a cloud or a tracer, which LiteLLM reads from bodies, reach no provider",
  async (t) => {
    const body = `{"model":"fast","aws_secret_access_key":"${SECRET}","vertex_credentials":{"private_key":"${SECRET}"},"azure_ad_token":"${SECRET}","langfuse_secret_key":"${SECRET}","model_list":[{"litellm_params":{"api_key":"${SECRET}"}}],"headers":{"authorization":"${SECRET}"},"n":1}`;
    for (const protocol of PROTOCOLS)
      t.same(JSON.parse(bodyOf(pass(scrub(), exchange({ protocol, body })))), { model: "fast", n: 1 }, protocol);
  },
);

t.test("an object of very many members is refused by its name, instead of being searched", async (t) => {
  const body = (count: number) =>
    `{"metadata":{${Array.from({ length: count }, (_, i) => `"k${i}":""`).join()}},"provider":{"a":1}}`;
  t.doesNotThrow(() => pass(scrub(), exchange({ body: body(1000) })));
  t.throws(() => pass(scrub(), exchange({ body: body(1001) })), { code: "invalid_field", param: "metadata" });
});

t.test("a chain that has it twice removes each mark once", async (t) => {
  const passing = exchange({
    headers: ["X-Title", "t"],
    body: '{"a":1,"provider":{},"metadata":{"tags":[1],"b":2},"c":3}',
  });
  pass(scrub(), passing);
  pass(scrub(), passing);
  t.equal(bodyOf(passing), '{"a":1,"metadata":{"b":2},"c":3}');
  t.same(passing.headers.lines, []);
});

t.test("names match completely, in any case", async (t) => {
  const headers = ["X-Portkey-", "x", "x-portkeys", "x", "xx-portkey-a", "x", "my-x-title", "x", "X-PORTKEY-A", "x"];
  const passed = pass(scrub(), exchange({ headers, body: '{"provider_":1,"my_litellm_x":1,"tags":"x"}' }));
  t.same(passed.headers.lines, headers.slice(0, 8), "a prefix needs a following character");
  t.equal(bodyOf(passed), '{"provider_":1,"my_litellm_x":1}');
  const spelled =
    '{"Provider":1,"MODEL\u017f":[],"LiteLLM_x":1,"Metadata":{"TAGS":["a"],"b":1},"PROVIDEROPTIONS":{},"c":1}';
  t.equal(bodyOf(pass(scrub(), exchange({ body: spelled }))), '{"Metadata":{"b":1},"c":1}', "as servers read names");
  const allows = scrub({ allow: ["provider"] });
  t.equal(bodyOf(pass(allows, exchange({ body: '{"Provider":1,"Route":"x"}' }))), '{"Provider":1}');
});

t.test("headers and query parameters of ordinary clients stay", async (t) => {
  const names =
    "accept content-type user-agent x-stainless-lang x-stainless-retry-count anthropic-version anthropic-beta openai-beta x-app x-claude-code-session-id x-claude-code-agent-id session-id session_id thread-id x-session-id x-session-affinity x-client-request-id originator x-codex-turn-metadata x-goog-api-client anthropic-dangerous-direct-browser-access traceparent x-server-timeout";
  const headers = names.split(" ").flatMap((name) => [name, "1"]);
  const query = "beta=true&alt=sse&$alt=json";
  const passed = pass(scrub({ mode: "reject" }), exchange({ headers, query }));
  t.same(passed.headers.lines, headers);
  t.equal(passed.query.toString(), query);
});

t.test("values that do not match a mark's shape stay", async (t) => {
  const body = '{"metadata":{"tags":"a,b","team":"x"},"caching":{"type":"enabled"},"usage":true}';
  t.equal(bodyOf(pass(scrub({ mode: "reject" }), exchange({ body }))), body);
});

t.test("the model's name is cleaned only to one of the marketplace", async (t) => {
  const models = [model("fast", ["quick"]), model("big:free"), model("openrouter/own")];
  const after = (asked: string, caller?: string[]) => {
    const passing = exchange({ asked });
    if (caller) passing.caller = { id: "c", name: "c", models: caller };
    const { requestedModel, notices } = pass(scrub({}, models), passing);
    t.equal(notices.length > 0, requestedModel !== asked, `${asked}: only what was removed is reported`);
    return requestedModel;
  };
  t.equal(after("openrouter/fast"), "fast");
  t.equal(after("openrouter/quick:nitro"), "quick", "prefix and suffix, to an alias");
  t.equal(after("tensorzero::model_name::fast"), "fast");
  t.equal(after("openrouter/big:free"), "big:free", "no further than needed");
  t.equal(after("openrouter/own"), "openrouter/own", "the marketplace's own name is not a mark");
  t.equal(
    after("openrouter/other:free"),
    "openrouter/other:free",
    "an unknown model is refused under its original name",
  );
  t.equal(after("openrouter/fast", ["big:free"]), "openrouter/fast", "nothing the caller may not use");
  t.equal(after("openrouter/"), "openrouter/");
  const routed = exchange({ asked: "openrouter/fast", body: '{"model":"openrouter/fast"}' });
  const { body } = routed;
  t.equal(pass(scrub(), routed).body, body, "the body is not edited");
  t.doesNotThrow(() => pass(scrub({ mode: "reject" }, models), exchange({ asked: "openrouter/own" })));
  t.doesNotThrow(() => pass(scrub({ mode: "reject" }, models), exchange({ asked: "unknown" })));
});

t.test("notices name what was removed and its origin", async (t) => {
  const passing = exchange({
    headers: ["X-Portkey-Config", SECRET, "X-Title", "t"],
    body: `{"provider":{},"api_key":"${SECRET}"}`,
  });
  t.same(pass(scrub(), passing).notices, [
    "scrub: removed x-portkey-config (Portkey), x-title (OpenRouter)",
    "scrub: removed provider (OpenRouter), api_key (LiteLLM)",
  ]);
  t.same(pass(scrub(), exchange({ body: '{"model":"fast"}' })).notices, [], "no notice where nothing was removed");
});

t.test("names that a client made up cannot break a header, a log or a refusal", async (t) => {
  const body = '{"tensorzero::\\r\\nset-cookie: a=b":1}';
  const [notice = ""] = pass(scrub(), exchange({ body })).notices;
  t.equal(notice, "scrub: removed tensorzero::* (TensorZero)");
  t.equal(refused(() => pass(scrub({ mode: "reject" }), exchange({ body })))?.param, "tensorzero::*");
  const many = `{${Array.from({ length: 1000 }, (_, i) => `"litellm_${i}":1`).join()}}`;
  const passed = pass(scrub(), exchange({ body: many }));
  t.match(passed.notices[0], / and 992 more$/);
  t.equal(bodyOf(passed), "{}");
});

t.test("a refusal names all marks, the first as its field", async (t) => {
  const error = refused(() =>
    pass(scrub({ mode: "reject" }), exchange({ body: '{"models":[],"requesty":{},"model":"fast"}' })),
  );
  t.equal(
    error?.message,
    'The field "models" belongs to OpenRouter, not to this gateway. Remove it: this gateway chooses providers itself. The same holds for requesty (Requesty).',
  );
  t.equal(error?.param, "models");
});

t.test("allow lets names and patterns pass", async (t) => {
  const asked = { headers: ["x-portkey-a", "1", "X-Tfy-B", "2", "x-tfy-c", "3"], body: '{"provider":1,"models":1}' };
  const passed = pass(scrub({ allow: ["x-portkey-*", "X-TFY-B", "provider"] }), exchange(asked));
  t.same(passed.headers.lines, ["x-portkey-a", "1", "X-Tfy-B", "2"]);
  t.equal(bodyOf(passed), '{"provider":1}');
  for (const name of ["provder", "requestys"]) {
    const wrong = Scrub.options.safeParse({ allow: [name] });
    t.match(wrong.error?.issues[0]?.message, `"${name}" is not in the catalogue`);
  }
});

t.test("a form and an array are ignored", async (t) => {
  for (const asked of [exchange({ body: "--x\r\n", form: true }), exchange({ body: '[{"provider":1}]' })]) {
    const { body } = asked;
    t.equal(pass(scrub(), asked).body, body);
  }
});

t.test("the container constructs it with its services", async (t) => {
  const parent = containerWith(new MemoryLog(), { marketplace: new Marketplace([model("fast")]) });
  const plugin = buildPlugin(parent, Scrub, Scrub.options.parse({})) as Scrub;
  const passed = pass(plugin, exchange({ asked: "openrouter/fast", body: '{"route":"x"}' }));
  t.equal(passed.requestedModel, "fast");
  t.equal(bodyOf(passed), "{}");
});

/** Passes a request on to a provider twice. Returns what would be sent, and the notices. */
function sentTo(
  url: string,
  body: string,
  { via, mode = "strip", form = false }: { via?: string; mode?: string; form?: boolean } = {},
) {
  const plugin = scrub({ mode });
  const passing = pass(plugin, exchange({ body, form }));
  t.equal(bodyOf(passing), body, "its target is not known yet");
  const provider = { name: "p", url: new URL(url), speaks: ["openai-chat", "gemini"] };
  const target = { provider, model: "m", weight: 1, ...(via ? { protocolName: via } : {}) } as unknown as Target;
  const { protocol } = passing;
  const start = { target, protocol, method: "POST", path: "/", headers: new HeaderList(), body: passing.body };
  const attempts = [1, 2].map(() => new Attempt({ ...start, startedAt: 0 }));
  for (const attempt of attempts) plugin.send(passing, attempt);
  return [attempts.at(-1)?.body.bytes().toString(), ...passing.notices];
}

t.test("what only some providers read is sent to them, and on to translations, and removed for others", async (t) => {
  const body = '{"model":"fast","extra_body":{"google":{"cached_content":"x"}},"n":1}';
  const google = "https://generativelanguage.googleapis.com/v1beta/openai";
  t.same(sentTo(google, body), [body]);
  t.same(sentTo("https://api.example/v1", body, { via: "gemini" }), [body], "translated");
  const told = "scrub: removed extra_body (an SDK call copied literally)";
  t.same(sentTo("https://api.example/v1", body), ['{"model":"fast","n":1}', told], "reported once");
  t.same(sentTo("https://notgoogleapis.com/v1", body), ['{"model":"fast","n":1}', told]);
  t.match(sentTo("https://api.example/v1", body, { mode: "report" }), [body, /found extra_body/]);
  t.equal(refused(() => sentTo("https://api.example/v1", body, { mode: "reject" }))?.code, "foreign_field");
  t.same(sentTo("https://api.example/v1", "", { form: true }), [""], "a request without a body has none");
  const literal = '{"model":"fast","extra_body":{"top_k":1}}';
  t.equal(bodyOf(pass(scrub(), exchange({ body: literal }))), '{"model":"fast"}');
  t.equal(bodyOf(pass(scrub(), exchange({ protocol: "openai-completions", body }))), '{"model":"fast","n":1}');
});

t.test("settings of OpenRouter's for reasoning and images reach it, and translations", async (t) => {
  for (const [name, value] of [
    ["reasoning", { max_tokens: 2000 }],
    ["reasoning", { effort: "high", exclude: true }],
    ["image_config", { aspect_ratio: "16:9" }],
    ["image_config", { image_size: "2K" }],
  ] as const) {
    const body = JSON.stringify({ model: "fast", [name]: value });
    t.same(sentTo("https://openrouter.ai/api/v1", body), [body]);
    t.same(sentTo("https://api.example/v1", body, { via: "gemini" }), [body]);
    t.same(sentTo("https://api.example/v1", body), ['{"model":"fast"}', `scrub: removed ${name} (OpenRouter)`]);
  }
  const others = '{"model":"fast","reasoning":"high","image_config":{"quality":"low"},"include_reasoning":true}';
  t.equal(bodyOf(pass(scrub(), exchange({ body: others }))), '{"model":"fast"}');
});
