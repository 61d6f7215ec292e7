import t from "tap";
import protocol from "../../../../plugins/protocols/gemini/index.ts";
import { countTokensCodec, hiddenReasoning, usageMetadata } from "../../../../plugins/protocols/gemini/usage.ts";
import type { Usage } from "../../../../src/core/usage.ts";
import { gathered } from "../../../support/gathered.ts";
import { runLinear } from "../../../support/linear-work.ts";
import { eventsIn, recorded } from "../../../support/recorded.ts";

const usage = (told: object, before?: Usage) => protocol.usage({ usageMetadata: told }, before);

t.test("tool results belong to the input and reasoning to the output", async (t) => {
  const told = {
    promptTokenCount: 100,
    cachedContentTokenCount: 60,
    toolUsePromptTokenCount: 20,
    candidatesTokenCount: 30,
    thoughtsTokenCount: 50,
    totalTokenCount: 200,
    promptTokensDetails: [
      { modality: "TEXT", tokenCount: 60 },
      { modality: "IMAGE", tokenCount: 30 },
      { modality: "AUDIO", tokenCount: 10 },
    ],
    toolUsePromptTokensDetails: [{ modality: "IMAGE", tokenCount: 20 }],
    candidatesTokensDetails: [{ modality: "AUDIO", tokenCount: 7 }],
    serviceTier: "flex",
  };
  t.same(usage(told), {
    in: { total: 120, cached: 60, audio: 10, image: 50, toolUse: 20 },
    out: { total: 80, reasoning: 50, audio: 7 },
    tier: "flex",
    raw: told,
  });
});

t.test("the kinds of cached tokens are known where they are reported", async (t) => {
  const told = {
    promptTokenCount: 100,
    cachedContentTokenCount: 60,
    cacheTokensDetails: [
      { modality: "VIDEO", tokenCount: 10 },
      { modality: "AUDIO", tokenCount: 30 },
      { modality: "IMAGE", tokenCount: 20 },
    ],
    totalTokenCount: 100,
  };
  t.match(usage(told), { in: { total: 100, cached: 60, cachedAudio: 30, cachedImage: 20, cachedVideo: 10 } });
});

t.test("a count of 0 is left out on the wire; an unreported one is absent", async (t) => {
  t.equal(usage({ promptTokenCount: 9, totalTokenCount: 9 })?.out.total, 0);
  t.equal(usage({ promptTokenCount: 9, thoughtsTokenCount: 4, totalTokenCount: 13 })?.out.total, 4);
  t.same(usage({ promptTokenCount: 9 }), { in: { total: 9 }, out: {}, raw: { promptTokenCount: 9 } });
  t.same(usage({ trafficType: "ON_DEMAND" }), {
    in: {},
    out: {},
    tier: "ON_DEMAND",
    raw: { trafficType: "ON_DEMAND" },
  });
  t.equal(protocol.usage({ candidates: [] }), undefined);
});

t.test("a later frame's usage replaces an earlier one, unless it has no total", async (t) => {
  const first = usage({ promptTokenCount: 9, candidatesTokenCount: 2, totalTokenCount: 11 });
  const last = { promptTokenCount: 9, thoughtsTokenCount: 5, totalTokenCount: 14 };
  t.same(usage(last, first), usage(last));
  t.match(usage({ trafficType: "ON_DEMAND" }, first), { in: { total: 9 }, out: { total: 2 }, tier: "ON_DEMAND" });
  t.equal(protocol.usage({ candidates: [] }, first), first);
});

t.test("earlier frames that nobody reads are not stored", async (t) => {
  const first = usage({ promptTokenCount: 3, made_up_1: 1 });
  const second = usage({ candidatesTokenCount: 2, made_up_2: 1 }, first);
  t.strictSame(second?.raw, { promptTokenCount: 3, candidatesTokenCount: 2, made_up_2: 1 });
});

t.test("modalities are recognised by name and by number", async (t) => {
  const promptTokensDetails = [1, 2, 3, 4, 5, "VIDEO", "NEW"].map((modality) => ({ modality, tokenCount: 10 }));
  t.same(usage({ promptTokensDetails })?.in, { image: 10, video: 20, audio: 10, document: 10 });
});

t.test("embeddings report their input, in either spelling of its details", async (t) => {
  const image = [{ modality: "IMAGE", tokenCount: 258 }];
  t.same(usage({ promptTokenCount: 261, promptTokenDetails: image })?.in, { total: 261, image: 258 });
  t.same(usage({ promptTokenCount: 261, promptTokensDetails: image })?.in, { total: 261, image: 258 });
});

const answers = recorded("gemini").filter(({ status }) => status < 300);
const skip = answers.length === 0 && "no recordings";

/** The bodies of an answer's frames; one for a whole answer. */
function frames({ kinds, body }: { kinds: readonly string[]; body: string }): unknown[] {
  if (!kinds.includes("stream")) return [JSON.parse(body)];
  return kinds.includes("json_array_stream")
    ? (JSON.parse(body) as unknown[])
    : eventsIn(body).map((frame) => frame.json());
}

gathered(t, "input and output of every recorded answer are the vendor's total", { skip }, async (t) => {
  let compared = 0;
  for (const answer of answers) {
    const all = frames(answer);
    const found = all.reduce<Usage | undefined>((before, json) => protocol.usage(json, before), undefined);
    const total = (found?.raw as { totalTokenCount?: number } | undefined)?.totalTokenCount;
    if (total === undefined) continue;
    t.equal((found?.in.total ?? 0) + (found?.out.total ?? 0), total, answer.id);
    // The usage plugin keeps the last frame that holds usage and reads it once.
    t.same(found, protocol.usage(all.findLast((json) => protocol.usage(json) !== undefined)), answer.id);
    compared++;
  }
  t.ok(compared > 100);
});

t.test("recorded embeddings report their input, recorded counts no usage", { skip }, async (t) => {
  for (const { id, status, body } of recorded("gemini-embeddings")) {
    const told = (JSON.parse(body) as { usageMetadata?: { promptTokenCount: number } }).usageMetadata;
    if (status < 300) t.equal(protocol.usage(JSON.parse(body))?.in.total, told?.promptTokenCount, id);
  }
  for (const { id, body } of recorded("gemini-count-tokens")) t.equal(protocol.usage(JSON.parse(body)), undefined, id);
});

t.test("sums are split into the vendor's parts", async (t) => {
  const metadata = usageMetadata({
    in: { total: 107, cached: 60, toolUse: 7, audio: 5 },
    out: { total: 50, reasoning: 30 },
    tier: "default",
    raw: 0,
  });
  t.strictSame(metadata, {
    promptTokenCount: 100,
    cachedContentTokenCount: 60,
    candidatesTokenCount: 20,
    toolUsePromptTokenCount: 7,
    thoughtsTokenCount: 30,
    totalTokenCount: 157,
    promptTokensDetails: [
      { modality: "TEXT", tokenCount: 95 },
      { modality: "AUDIO", tokenCount: 5 },
    ],
    serviceTier: "standard",
  });
});

t.test("details by modality add up to their total, and are not written for text alone", async (t) => {
  const none = usageMetadata({ in: { total: 11, audio: 0, cachedAudio: 0 }, out: { total: 3, audio: 0 }, raw: 0 });
  t.strictSame(none, { promptTokenCount: 11, candidatesTokenCount: 3, totalTokenCount: 14 });
  const out = usageMetadata({ in: {}, out: { total: 9, reasoning: 2, audio: 0, image: 7 }, raw: 0 });
  t.strictSame(out["candidatesTokensDetails"], [{ modality: "IMAGE", tokenCount: 7 }]);
});

t.test("unknown values are left out, and nothing is negative", async (t) => {
  t.strictSame(usageMetadata({ in: {}, out: {}, tier: "scale", raw: 0 }), {});
  t.strictSame(usageMetadata({ in: { total: 1 }, out: { total: 1, reasoning: 3 }, raw: 0 }), {
    promptTokenCount: 1,
    candidatesTokenCount: 0,
    thoughtsTokenCount: 3,
    totalTokenCount: 2,
  });
});

const wholeAnswers = recorded("gemini").filter(({ status, kinds }) => status === 200 && !kinds.includes("stream"));

gathered(t, "recorded counts survive", { skip: wholeAnswers.length === 0 && "no recordings" }, async (t) => {
  for (const { id, body } of wholeAnswers.filter(({ kinds }) => !kinds.includes("json_array_stream"))) {
    const json = JSON.parse(body) as { usageMetadata: Record<string, unknown> };
    const read = protocol.usage(json);
    const counts = Object.entries(json.usageMetadata).filter(([name]) => name.endsWith("TokenCount"));
    if (read) t.match(usageMetadata(read), Object.fromEntries(counts), id);
  }
});

t.test("a count is encoded and decoded", async (t) => {
  t.equal(countTokensCodec.encode(31), '{"totalTokens":31}');
  t.equal(
    countTokensCodec.decode('{"totalTokens":31,"promptTokensDetails":[{"modality":"TEXT","tokenCount":31}]}'),
    31,
  );
});

t.test("a count of 0 is left out on the wire", async (t) => {
  t.equal(countTokensCodec.decode('{"promptTokensDetails":[{"modality":"TEXT"}]}'), 0);
});

t.test("anything else is an invalid answer of the provider", async (t) => {
  for (const text of ["{}", '{"error":{"code":500}}', '{"message":"No."}', '{"totalTokens":null}'])
    t.throws(() => countTokensCodec.decode(text), { code: "upstream_invalid" }, text);
  for (const text of ["", "<html>", "[]", "12", '{"totalTokens":"many"}', '{"totalTokens":-1}'])
    t.throws(() => countTokensCodec.decode(text), { code: "upstream_invalid" }, text);
});

t.test("hidden thoughts are known by their signatures, of which those of the vendor's tools hold more", async (t) => {
  const signature = "x".repeat(620);
  const hidden = (...parts: readonly unknown[]) => [...hiddenReasoning()({ candidates: [{ content: { parts } }] })];
  t.same(hidden({ text: "", thoughtSignature: signature }), [["summarized", 100]]);
  const call = { functionCall: { name: "f" }, thought_signature: signature };
  t.same(hidden(call, { text: "more" }, null), [["summarized", 100]]);
  t.same(hidden({ toolResponse: {}, thoughtSignature: signature }, { toolCall: {}, thoughtSignature: signature }), []);
  for (const json of [undefined, [], { candidates: [null] }]) t.same([...hiddenReasoning()(json)], []);
});

t.test("a frame takes no time for what earlier ones have reported, however much that was", async (t) => {
  const promptTokensDetails = Array.from({ length: 100_000 }, () => ({ modality: "AUDIO", tokenCount: 1 }));
  t.doesNotThrow(() =>
    runLinear(() => {
      let told = usage({ promptTokenCount: 1, promptTokensDetails });
      for (let n = 0; n < 5000; n++) told = usage({ candidatesTokenCount: n }, told);
    }),
  );
});
