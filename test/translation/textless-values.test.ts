import t from "tap";
import { asking, startGateway } from "../support/gateway.ts";
import { httpUpstream } from "../support/upstream.ts";

/** A value that cannot be made a text: JavaScript asks it for one itself. */
const TEXTLESS = { toString: 1 };
const parameters = {
  ...{ type: "object", required: ["a"], additionalProperties: false, $ref: TEXTLESS },
  properties: { a: { type: "string", pattern: TEXTLESS } },
};

t.test("words of a schema that are objects with a `toString` of their own are sent, and end no request", async (t) => {
  const upstream = await httpUpstream();
  t.teardown(() => upstream.close());
  const protocols = ["anthropic-messages", "gemini", "openai-chat", "openai-responses"];
  const entry = (speaks: string) => `${speaks}: { url: "${upstream.origin.origin}/v1", speaks: [${speaks}] }`;
  const model = (speaks: string) => `${speaks}: { targets: [${speaks}:m] }`;
  const { url } = await startGateway(
    t,
    `providers: { ${protocols.map(entry).join(", ")} }\nmodels: { ${protocols.map(model).join(", ")} }\n`,
  );
  for (const model of protocols) {
    const tools = [{ type: "function", function: { name: "f", strict: true, parameters } }];
    const functionDeclarations = [{ name: "f", parameters: { ...parameters, type: undefined } }];
    for (const [path, body] of [
      ["/v1/chat/completions", { model, messages: [{ role: "user", content: "a" }], tools }],
      [
        `/v1beta/models/${model}:generateContent`,
        { contents: [{ role: "user", parts: [{ text: "a" }] }], tools: [{ functionDeclarations }] },
      ],
    ] as const) {
      const sent = upstream.seen.length;
      const answer = await fetch(url + path, { method: "POST", headers: asking(), body: JSON.stringify(body) });
      t.notMatch(await answer.text(), /plugin_failed/i, `${path} to ${model}`);
      t.equal(upstream.seen.length, sent + 1, "the provider has it");
    }
  }
});
