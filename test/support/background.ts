import type { Test } from "tap";
import { httpUpstream } from "./upstream.ts";

/** A provider whose Responses run in the background: each is queued when it is made, and complete when it is fetched. */
export async function backgroundUpstream(t: Test) {
  const upstream = await httpUpstream(({ method }, reply) => {
    const done = method === "GET";
    const usage = done ? { input_tokens: 9, output_tokens: 6, total_tokens: 15 } : null;
    const answer = { id: "resp_1", object: "response", background: true, output: [], usage };
    reply
      .setHeader("content-type", "application/json")
      .end(JSON.stringify({ ...answer, status: done ? "completed" : "queued" }));
  });
  t.teardown(() => upstream.close());
  return upstream;
}
