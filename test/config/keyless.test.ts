import t from "tap";
import { acceptsKeyless, servesKeyless } from "../../src/config/keyless.ts";
import { startGateway } from "../support/gateway.ts";

const YAML = `providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo] } }
limits: { default: { budget: $5/day }, all: { budget: $9/day } }
`;

t.test("requests without a key have their own limits where they are accepted, and nowhere else", async (t) => {
  const told = async (more: string) => {
    const { gateway } = await startGateway(t, YAML + more);
    const { config } = gateway.generation;
    const statuses = await gateway.generation.limitStatuses([]);
    return [acceptsKeyless(config), servesKeyless(config), statuses.map(({ kind, name }) => `${kind} ${name}`)];
  };
  t.same(await told(""), [false, false, ["all "]]);
  t.same(await told("plugins: { auth: { anonymous: true } }\n"), [true, true, ["key ", "all "]]);
  const chains = (llm: string, read: string) => `chains: { llm: [${llm}], read: [${read}] }\n`;
  const rest = "models, limits, rewrite, usage";
  t.same(await told(chains(`sse, ${rest}`, "auth")), [false, true, ["key ", "all "]]);
  t.same(await told(chains(`sse, auth, ${rest}`, "")), [false, false, ["all "]], "lists of models cost nothing");
});
