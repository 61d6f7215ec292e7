import { isDeepStrictEqual } from "node:util";
import t from "tap";
import protocol from "../../../../plugins/protocols/openai-chat/index.ts";
import { hiddenReasoning, readUsage } from "../../../../plugins/protocols/openai-chat/usage.ts";
import { cost, isPriced } from "../../../../src/core/price.ts";
import type { Usage } from "../../../../src/core/usage.ts";
import { Catalogue } from "../../../../src/prices/catalogue.ts";
import { asEvent, eventsIn, jsonOf, recorded } from "../../../support/recorded.ts";

t.test("every part of a full report is decoded", async (t) => {
  const usage = {
    prompt_tokens: 100,
    completion_tokens: 50,
    total_tokens: 150,
    prompt_tokens_details: {
      cached_tokens: 40,
      cache_write_tokens: 10,
      audio_tokens: 3,
      image_tokens: 2,
      video_tokens: 1,
    },
    completion_tokens_details: {
      reasoning_tokens: 20,
      audio_tokens: 5,
      image_tokens: 4,
      accepted_prediction_tokens: 6,
      rejected_prediction_tokens: 7,
    },
  };
  t.strictSame(readUsage({ usage, service_tier: "flex" }), {
    in: { total: 100, cached: 40, write: { unsplit: 10 }, audio: 3, image: 2, video: 1 },
    out: { total: 50, reasoning: 20, audio: 5, image: 4, acceptedPrediction: 6, rejectedPrediction: 7 },
    tier: "flex",
    raw: usage,
  });
});

t.test("unreported values are absent, not 0", async (t) => {
  const usage = { prompt_tokens: 3, completion_tokens: 4, prompt_tokens_details: null };
  t.strictSame(readUsage({ usage }), { in: { total: 3 }, out: { total: 4 }, raw: usage });
});

t.test("cached tokens are never more than the input", async (t) => {
  const usage = { prompt_tokens: 3, prompt_tokens_details: { cached_tokens: 9 } };
  t.equal(readUsage({ usage })?.in.cached, 3);
});

t.test("vendors' own names for cached tokens count where the common one is missing", async (t) => {
  for (const word of ["prompt_cache_hit_tokens", "cached_tokens", "num_cached_tokens", "cache_read_input_tokens"]) {
    t.equal(readUsage({ usage: { prompt_tokens: 9, [word]: 5 } })?.in.cached, 5, word);
  }
});

t.test("tokens written to a cache count as such by alibaba's and litellm's names", async (t) => {
  const alibaba = { prompt_tokens_details: { cached_tokens: 2, cache_creation_input_tokens: 5 } };
  const litellm = { prompt_tokens_details: { cached_tokens: 2 }, cache_creation_input_tokens: 5 };
  for (const usage of [alibaba, litellm]) {
    t.strictSame(readUsage({ usage: { prompt_tokens: 9, ...usage } })?.in, {
      total: 9,
      cached: 2,
      write: { unsplit: 5 },
    });
  }
});

t.test("reasoning that is only part of the total counts as output", async (t) => {
  const usage = {
    prompt_tokens: 10,
    completion_tokens: 5,
    total_tokens: 45,
    completion_tokens_details: { reasoning_tokens: 30 },
  };
  t.strictSame(readUsage({ usage })?.out, { total: 35, reasoning: 30 });
});

t.test("a cache that portkey counts beside the prompt, in the total alone, is input and no output", async (t) => {
  const usage = {
    prompt_tokens: 13,
    completion_tokens: 9,
    total_tokens: 1030,
    prompt_tokens_details: { cached_tokens: 1000 },
    cache_read_input_tokens: 1000,
    cache_creation_input_tokens: 8,
  };
  t.match(readUsage({ usage }), {
    in: { total: 1021, cached: 1000, write: { unsplit: 8 } },
    out: { total: 9 },
  });
  const litellm = { ...usage, prompt_tokens: 1021 };
  t.match(
    readUsage({ usage: litellm }),
    { in: { total: 1021, cached: 1000 }, out: { total: 9 } },
    "already in the prompt",
  );
});

t.test("later values win, missing ones keep what was known, and the tier stays", async (t) => {
  const first = readUsage({ usage: { prompt_tokens: 1, completion_tokens: 1 }, service_tier: "default" });
  for (const empty of [{ usage: null }, {}, null, undefined, "text", { usage: [] }])
    t.equal(readUsage(empty, first), first);
  t.match(readUsage({ usage: { prompt_tokens: 1, completion_tokens: 2 } }, first), {
    out: { total: 2 },
    tier: "default",
  });
  t.equal(readUsage({ usage: null }), undefined);
});

t.test("the older place of one vendor's streams is read too", async (t) => {
  t.match(readUsage({ x_groq: { id: "r", usage: { prompt_tokens: 8 } } }), { in: { total: 8 } });
});

/** Recorded answers of status 200 that report no usage. */
const SILENT = new Set(["openai-chat/pydantic-ai__test_openai.test_invalid_response__0"]);

t.test("the usage of every recorded answer is read, whole or from the frames that may contain it", async (t) => {
  const wrong: string[] = [];
  for (const { id, kinds, status, body } of recorded("openai-chat")) {
    if (status >= 300) continue;
    const fine = kinds.includes("stream") ? isStreamRead(body) : isWholeRead(jsonOf(body), SILENT.has(id));
    if (!fine) wrong.push(id);
  }
  t.same(wrong, []);
});

function isWholeRead(json: unknown, silent: boolean): boolean {
  const usage = readUsage(json);
  if (silent) return usage === undefined;
  const frame = asEvent(json as object);
  return isSound(usage) && protocol.holdsUsage(frame) && isDeepStrictEqual(readUsage(frame.json()), usage);
}

/** Reading only the frames that may hold usage gives what the last report in the stream gives as a whole body. */
function isStreamRead(body: string): boolean {
  let usage: Usage | undefined;
  let last: unknown;
  for (const frame of eventsIn(body)) {
    if (protocol.holdsUsage(frame)) usage = readUsage(frame.json(), usage);
    const json = frame.json() as { usage?: object; x_groq?: { usage?: object } } | undefined;
    last = json?.usage ?? json?.x_groq?.usage ?? last;
  }
  if (usage === undefined) return last === undefined;
  return isSound(usage) && isDeepStrictEqual({ ...usage, tier: "" }, { ...readUsage({ usage: last }), tier: "" });
}

function isSound(usage: Usage | undefined): boolean {
  if (!usage) return false;
  const raw = usage.raw as { prompt_tokens: number; total_tokens: number };
  const { in: input, out: output } = usage;
  return (
    input.total === raw.prompt_tokens &&
    input.total + (output.total ?? 0) === raw.total_tokens &&
    (input.cached ?? 0) <= input.total &&
    (output.reasoning ?? 0) <= (output.total ?? 0)
  );
}

t.test("audio tokens that are only part of the total are input, not output", async (t) => {
  const usage = { prompt_audio_seconds: 203, prompt_tokens: 4, total_tokens: 3264, completion_tokens: 635 };
  t.match(readUsage({ usage }), { in: { total: 2629, audio: 2625 }, out: { total: 635 } });
  t.match(readUsage({ usage: { ...usage, prompt_audio_seconds: null } }), { in: { total: 4 }, out: { total: 3260 } });
  t.match(readUsage({ usage: { prompt_audio_seconds: 2, prompt_tokens: 5, completion_tokens: 6 } }), {
    in: { total: 5 },
    out: { total: 6 },
  });
});

const PERPLEXITY = { url: new URL("https://api.perplexity.ai") };

/** Returns the listed price of a model of Perplexity's. */
const perplexityPrice = async (model: string) =>
  (await Catalogue.for([PERPLEXITY])).find(PERPLEXITY, model).prices?.versionAt(Date.now())?.price ?? {};

t.test("what Perplexity counts beside the tokens of a chat costs as much as the vendor says", async (t) => {
  const counts = { prompt_tokens: 33, completion_tokens: 7163, total_tokens: 7196 };
  const beside = { citation_tokens: 20_016, num_search_queries: 18, reasoning_tokens: 73_997 };
  const costs = { input_tokens_cost: 0.000066, output_tokens_cost: 0.057304, search_queries_cost: 0.09 };
  const besideCosts = { citation_tokens_cost: 0.040032, reasoning_tokens_cost: 0.221991 };
  const raw = { ...counts, ...beside, cost: { ...costs, ...besideCosts, total_cost: 0.409393 } };
  const usage = readUsage({ usage: raw }) as Usage;
  t.match(usage, {
    in: { total: 33 + 20_016 },
    out: { total: 7163 + 73_997, reasoning: 73_997 },
    serverTools: { web_search: 18 },
  });
  t.equal(cost(usage, await perplexityPrice("sonar-deep-research")), usage.providerCost);
  t.match(
    readUsage({ usage: { ...counts, ...beside, cost: { ...costs, total_cost: 0.14737 } } }),
    { in: { total: 33 }, out: { total: 7163, reasoning: undefined }, serverTools: { web_search: 18 } },
    "only what the vendor bills",
  );
  t.match(readUsage({ usage: { prompt_tokens: 3, completion_tokens: 9, reasoning_tokens: 5 } }), { out: { total: 9 } });
});

t.test("a search of Perplexity's models that cost by request is in the price of the request", async (t) => {
  for (const [model, request_cost, tokens_cost] of [
    ["sonar", 0.012, 0.000018],
    ["sonar-pro", 0.014, 0.000174],
  ] as const) {
    const total_cost = request_cost + tokens_cost;
    const raw = {
      ...{ prompt_tokens: 8, completion_tokens: 10, total_tokens: 18 },
      ...{ citation_tokens: 900, reasoning_tokens: 70, num_search_queries: 1, search_context_size: "high" },
      cost: { citation_tokens_cost: null, reasoning_tokens_cost: 0, request_cost, total_cost },
    };
    const usage = readUsage({ usage: raw }) as Usage;
    const price = await perplexityPrice(model);
    t.ok(isPriced(usage, price, true), model);
    t.equal(cost(usage, price), usage.providerCost, model);
  }
});

t.test("hidden reasoning is known by OpenRouter's states and Google's signatures", async (t) => {
  const state = (start: string, length: number) => start.padEnd(length, "x");
  const details = [
    { type: "reasoning.summary", summary: "In short." },
    { type: "reasoning.encrypted", data: state("gAAAAAB", 1620) },
    { type: "reasoning.text", text: "All of it.", signature: state("", 620) },
  ];
  const google = (length: number) => ({ extra_content: { google: { thought_signature: state("", length) } } });
  const call = { id: "c", function: { name: "f", arguments: "{}" }, ...google(310) };
  for (const member of ["delta", "message"]) {
    const hidden = (content: object) => [...hiddenReasoning()({ choices: [{ [member]: content }, null] })];
    t.same(hidden({ reasoning_details: details }), [["summarized", 100]], member);
    const both = [
      ["summarized", 100],
      ["summarized", 50],
    ];
    t.same(hidden({ content: "", ...google(620), tool_calls: [call, null] }), both, member);
    t.same(hidden({ content: "text", reasoning: "All of it." }), [], member);
  }
  for (const json of [undefined, [], { choices: 1 }]) t.same([...hiddenReasoning()(json)], []);
});
