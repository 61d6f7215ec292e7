import t from "tap";
import ModelByHeader from "../../examples/model-by-header.ts";
import { drive } from "../../src/testing.ts";

t.test(
  "a header selects the model, in every protocol, and an unknown value is refused with the known ones",
  async (t) => {
    await using driven = await drive(ModelByHeader, { options: { header: "X-Tier", models: { small: "gemini" } } });
    for (const protocol of driven.protocols)
      for (const stream of [false, true]) {
        const chosen = await driven.ask({ protocol, stream, headers: { "x-tier": "small" } });
        t.match(chosen, { status: 200, text: "Hello", sent: [{ protocol: "gemini" }] }, `${protocol}, ${stream}`);
        t.match(await driven.ask({ protocol, stream }), { sent: [{ protocol }] }, "without it the body's counts");
        const refused = await driven.ask({ protocol, stream, headers: { "x-tier": "toString" } });
        t.match(refused, {
          status: 400,
          error: { code: "invalid_field", message: /It takes small\./ },
          sent: { length: 0 },
        });
      }
  },
);
