import OpenAI from "openai";
import t from "tap";
import { streamError } from "../../../../plugins/protocols/openai-images/errors.ts";
import { GatewayError } from "../../../../src/core/errors.ts";
import { receiving } from "../../../support/openai-sdks.ts";

t.test("the newer SDK throws it in a stream", async (t) => {
  const fault = streamError(new GatewayError("upstream_truncated", { message: "Broken off." }));
  const client = receiving(OpenAI, fault);
  const reading = async () => {
    for await (const _ of await client.images.generate({ model: "m", prompt: "", stream: true })) t.fail("no event");
  };
  await t.rejects(reading(), { code: "upstream_truncated", type: "server_error", message: "Broken off." });
});
