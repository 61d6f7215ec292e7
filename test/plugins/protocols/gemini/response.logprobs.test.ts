import t from "tap";
import { joinedLogprobs, likelihoods, logprobsResult } from "../../../../plugins/protocols/gemini/response.logprobs.ts";

const result = {
  chosenCandidates: [{ token: "é", logProbability: -0.5, tokenId: 7 }, { token: " a" }],
  topCandidates: [
    {
      candidates: [
        { token: "é", logProbability: -0.5 },
        { token: "e", logProbability: -2 },
      ],
    },
    { candidates: [] },
  ],
};

t.test("likelihoods have the common shape, with the token's bytes", async (t) => {
  const bytes = [195, 169];
  t.strictSame(likelihoods(result), [
    {
      token: "é",
      logprob: -0.5,
      bytes,
      top_logprobs: [
        { token: "é", logprob: -0.5, bytes },
        { token: "e", logprob: -2, bytes: [101] },
      ],
    },
    { token: " a", logprob: 0, bytes: [32, 97], top_logprobs: [] },
  ]);
  t.equal(likelihoods({}), undefined);
});

t.test("what has no likelihood at all is as unlikely as clients can be told", async (t) => {
  const chosenCandidates = ["-Infinity", {}, true].map((logProbability) => ({ token: "x", logProbability }));
  t.match(
    likelihoods({ chosenCandidates }),
    Array.from({ length: 3 }, () => ({ logprob: -9999 })),
  );
  t.match(likelihoods({ chosenCandidates: [{ token: "x", logProbability: "-1.5" }] }), [{ logprob: -1.5 }]);
});

t.test("they are written back, as a list or as the content of one", async (t) => {
  const written = {
    chosenCandidates: [
      { token: "é", logProbability: -0.5 },
      { token: " a", logProbability: 0 },
    ],
    topCandidates: result.topCandidates,
  };
  t.strictSame(logprobsResult(likelihoods(result)), written);
  t.strictSame(logprobsResult({ content: likelihoods(result) }), written);
  t.equal(logprobsResult({ odd: true }), undefined);
});

t.test("pieces follow each other", async (t) => {
  t.strictSame(joinedLogprobs([undefined, { chosenCandidates: [1] }, { chosenCandidates: [2], topCandidates: [3] }]), {
    chosenCandidates: [1, 2],
    topCandidates: [3],
  });
  t.equal(joinedLogprobs([undefined]), undefined);
});
