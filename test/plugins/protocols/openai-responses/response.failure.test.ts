import t from "tap";
import { failedBy } from "../../../../plugins/protocols/openai-responses/response.failure.ts";

t.test("the code of a failed response tells what HTTP would have told by a status", async (t) => {
  const statuses = {
    ...{ server_error: 500, rate_limit_exceeded: 429, insufficient_quota: 429, server_is_overloaded: 503 },
    ...{ vector_store_timeout: 504, invalid_prompt: 400, context_length_exceeded: 400, image_too_large: 400 },
    ...{ cyber_policy: 400, something_new: 502 },
  };
  for (const [code, status] of Object.entries(statuses))
    t.match(failedBy({ code, message: "So it is." }), { code, status, message: "So it is." }, code);
});

t.test("a failure without words is the provider's fault", async (t) => {
  for (const error of [null, undefined, {}, "", 7]) t.match(failedBy(error), { status: 502, kind: "upstream" });
  t.not(failedBy({}).message, "");
});

t.test("what is billed is not asked for again", async (t) => {
  t.equal(failedBy({ code: "insufficient_quota" }).kind, "billing");
});
