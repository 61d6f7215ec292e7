import t from "tap";
import { requestedEffort } from "../../../plugins/usage/requested-effort.ts";
import { Body } from "../../../src/core/body.ts";

t.test(
  "the effort of a request is found where Chat and Responses have it, if it is one of the known ones",
  async (t) => {
    const effort = (request: object) =>
      requestedEffort({ body: new Body([Buffer.from(JSON.stringify(request))], "json") });
    t.equal(effort({ model: "m", reasoning_effort: "low" }), "low");
    t.equal(effort({ reasoning: { summary: "auto", effort: "none" } }), "none");
    t.equal(effort({ reasoning_effort: null, reasoning: { effort: "xhigh" } }), "xhigh");
    for (const other of [
      {},
      { reasoning: null },
      { reasoning: {} },
      { reasoning: { effort: 1 } },
      { reasoning_effort: "made-up" },
      { reasoning: { effort: "low", more: "x".repeat(200) } },
    ])
      t.equal(effort(other), undefined, JSON.stringify(other));
  },
);
