import { createContext, Script } from "node:vm";
import {
  GatewayError,
  type Head,
  Options,
  type Plugin,
  type RequestExchange,
  type ResponseExchange,
  slot,
} from "model-gateway";
import { inject, injectable } from "tsyringe";
import { z } from "zod";

/** Paths of the response schema in requests of the four protocols. */
const PLACES = [
  "response_format.json_schema.schema",
  "text.format.schema",
  "output_config.format.schema",
  "generationConfig.responseJsonSchema",
  "generationConfig.responseSchema",
];

type JsonObject = Record<string, unknown>;

/** A regular expression of a client's could keep the gateway busy for hours. */
const PATTERNS = ["pattern", "patternProperties"];

/** A member of this name is every object's prototype to zod, which neither requires nor checks it. */
const PROTO = "__proto__";

/** Characters and values of the largest schema: building its check takes up to 20 microseconds for each value. */
const [MAX_SCHEMA, MAX_VALUES] = [100_000, 5000];
/** Issues that are reported; an answer may have one for each byte. */
const MAX_ISSUES = 5;
/**
 * Milliseconds of processor time for the check of an answer: where schemas refer to each other, its work may grow exponentially with their
 * number.
 */
const MAX_MS = 100;
const CHECK = new Script("check()");
const checking = createContext({ check: (): string | undefined => undefined });

/** Refuses responses that do not match the schema in the request. A stream is buffered until it is complete. */
@injectable()
export default class JsonSchema implements Plugin {
  static options = z.strictObject({
    bytes: z
      .int()
      .positive()
      .default(4_194_304)
      .describe("Of the largest answer that is checked; a larger one is refused."),
  });
  // Before rewrite: request and response are in the client's protocol.
  static before = ["rewrite"];

  private readonly asked = slot((): { schema?: z.ZodType } => ({}));

  constructor(@inject(Options) private readonly options: z.infer<typeof JsonSchema.options>) {}

  request(exchange: RequestExchange): void {
    for (const param of PLACES) {
      const [member = "", ...names] = param.split(".");
      const found = names.reduce(
        (value, name) => (value as JsonObject | undefined)?.[name],
        exchange.body.value(member),
      );
      if (found === undefined) continue;
      try {
        let values = 0;
        const schema = JSON.stringify(found, (name, value) => {
          if (++values > MAX_VALUES) throw new Error("too much");
          return toJsonSchema(name, value);
        });
        if (schema.length > MAX_SCHEMA) throw new Error("too long");
        this.asked(exchange).schema = z.fromJSONSchema(JSON.parse(schema));
      } catch {
        const message = "Answers cannot be checked by this schema.";
        const hint = `Supported is JSON Schema of ${MAX_SCHEMA} characters and ${MAX_VALUES} values, without ${PATTERNS.join(", ")} and ${PROTO}.`;
        throw new GatewayError("invalid_field", { message, hint, param });
      }
    }
  }

  async response(exchange: ResponseExchange, head: Head): Promise<void> {
    const { schema } = this.asked(exchange);
    if (schema === undefined || head.status !== 200 || !head.readBody) return;
    const answer = await head.readBody(this.options.bytes);
    // A response with only tool calls has no text for the schema.
    const texts = exchange.completeResponseTexts(answer, ["assistant"]).map(({ text }) => text);
    const wrong = schemaIssues(schema, texts);
    if (wrong === undefined) return;
    const message = `The answer breaks the schema: ${wrong}.`;
    throw new GatewayError("schema_broken", { status: 502, kind: "upstream", message });
  }
}

/**
 * Converts uppercase types and `nullable`, which one of the protocols has.
 * @throws Error for a regular expression; a property that is named `pattern` is none. And for a member `__proto__`
 */
function toJsonSchema(name: string, value: unknown): unknown {
  if (name === PROTO) throw new Error(name);
  if (PATTERNS.includes(name) && (typeof value === "string" || name === "patternProperties")) throw new Error(name);
  if (name === "type" && typeof value === "string") return value.toLowerCase();
  const { nullable, ...others } = (value ?? {}) as { nullable?: boolean };
  return nullable === true ? { anyOf: [others, { type: "null" }] } : value;
}

/** Returns what is wrong with one of the texts, without quoting it. They are one check: a request may ask for many answers. */
function schemaIssues(schema: z.ZodType, texts: readonly string[]): string | undefined {
  let all: unknown[];
  try {
    all = texts.map((text) => JSON.parse(text) as unknown);
  } catch {
    return "it is no JSON";
  }
  checking["check"] = () => {
    for (const json of all) {
      if (hasProto(json)) return `it has a member ${PROTO}`;
      const issues = schema.safeParse(json).error?.issues.slice(0, MAX_ISSUES);
      if (issues) return issues.map(({ path, code }) => `${path.join(".") || "its root"} (${code})`).join(", ");
    }
    return undefined;
  };
  const used = process.threadCpuUsage();
  for (;;)
    try {
      return CHECK.runInContext(checking, { timeout: MAX_MS }) as string | undefined;
    } catch {
      // The timeout counts the time in which a busy machine ran other processes too: a check that had little of it is repeated.
      const { user, system } = process.threadCpuUsage(used);
      if (user + system >= MAX_MS * 1000) return "it cannot be checked in time";
    }
}

const hasProto = (json: unknown): boolean =>
  typeof json === "object" && json !== null && (Object.hasOwn(json, PROTO) || Object.values(json).some(hasProto));
