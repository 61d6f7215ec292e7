import t from "tap";
import { error } from "../../../../plugins/protocols/openai/errors.ts";
import { GatewayError } from "../../../../src/core/errors.ts";
import { receiving, SDKS } from "../../../support/openai-sdks.ts";
import { MEMBERS } from "./members.ts";

t.test("an error body says message, type, param and code, whatever is known of them", async (t) => {
  const body = (...about: ConstructorParameters<typeof GatewayError>) => JSON.parse(error(new GatewayError(...about)));
  t.same(body("invalid_field", { message: "n must be 1.", param: "n" }), {
    error: { message: "n must be 1.", type: "invalid_request_error", param: "n", code: "invalid_field" },
  });
  t.same(body("invalid_api_key", { message: "Unknown." }), {
    error: { message: "Unknown.", type: "invalid_request_error", param: null, code: "invalid_api_key" },
  });
  t.same(body("model_not_found", { message: "No such model.", param: "model" }), {
    error: { message: "No such model.", type: "invalid_request_error", param: "model", code: "model_not_found" },
  });
  t.same(body("upstream_unreachable", { message: "Gone." }), {
    error: { message: "Gone.", type: "server_error", param: null, code: "upstream_unreachable" },
  });
});

t.test("limits and money have the vendor's own codes", async (t) => {
  const about = { status: 429, code: "ours", message: "Wait." };
  t.match(JSON.parse(error({ ...about, kind: "rate_limit" })), { error: { code: "rate_limit_exceeded" } });
  t.match(JSON.parse(error({ ...about, kind: "billing" })), {
    error: { type: "insufficient_quota", code: "insufficient_quota" },
  });
});

for (const [folder, { protocol, ask }] of Object.entries(MEMBERS)) {
  t.test(`${folder}: these are its errors`, async (t) => {
    t.equal(protocol.error, error);
  });

  for (const [name, Sdk] of Object.entries(SDKS)) {
    t.test(`${folder}: ${name} throws it with its status, type, param and code`, async (t) => {
      const fault = new GatewayError("model_not_found", { message: "No such model.", param: "model" });
      const client = receiving(Sdk, protocol.error(fault, "id"), fault.status, "application/json");
      await t.rejects(ask(client, "m"), {
        name: "Error",
        status: 404,
        type: "invalid_request_error",
        param: "model",
        code: "model_not_found",
        message: "404 No such model.",
      });
    });
  }
}
