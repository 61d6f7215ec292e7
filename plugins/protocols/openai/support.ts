import {
  asObject,
  defined,
  type Fields,
  type Format,
  invalidField,
  RawJson,
  type Setting,
} from "model-gateway/protocol";

/** Writes nothing: for a row whose member is only decoded, because other vendors have no equivalent. */
export const unwritten = (): undefined => undefined;

/** Sampling settings common to chat and text completions. */
export const SAMPLING: readonly Setting[] = [
  {
    wire: "max_completion_tokens",
    older: ["max_tokens"],
    field: "maxTokens",
    feature: "max_tokens",
    type: "number",
    // The vendor always responds with at least one token.
    range: [1, Number.POSITIVE_INFINITY],
  },
  { wire: "stop", field: "stop", feature: "stop", type: "texts", longest: 4, ...listOrText() },
  { wire: "temperature", field: "temperature", feature: "temperature", type: "number", range: [0, 2], sampling: true },
  { wire: "top_p", field: "topP", feature: "top_p", type: "number", sampling: true },
  { wire: "top_k", field: "topK", feature: "top_k", type: "number", write: unwritten },
  {
    wire: "frequency_penalty",
    field: "frequencyPenalty",
    feature: "penalties",
    type: "number",
    silent: (penalty) => penalty === 0,
  },
  {
    wire: "presence_penalty",
    field: "presencePenalty",
    feature: "penalties",
    type: "number",
    silent: (penalty) => penalty === 0,
  },
  { wire: "seed", field: "seed", feature: "seed", type: "integer" },
  {
    wire: "logit_bias",
    field: "logitBias",
    feature: "logit_bias",
    type: "any",
    silent: (bias) => Object.keys(asObject(bias) ?? { bias }).length === 0,
    write: unwritten,
  },
  { wire: "n", field: "choices", feature: "choices", type: "number", silent: (choices) => (choices as number) <= 1 },
];

/** One string is equivalent to a list of it. */
function listOrText(): Pick<Setting, "read" | "write" | "silent"> {
  return {
    read(fields: Fields, name: string) {
      const value = fields.any(name);
      const list = typeof value === "string" ? [value] : value;
      if (Array.isArray(list) && list.every((each) => typeof each === "string")) return list;
      throw invalidField(fields.path(name), `${fields.path(name)} must be a string or a list of strings.`);
    },
    write: (list: readonly string[]) => (list.length > 0 ? list : undefined),
    silent: (list) => (list as readonly string[]).length === 0,
  };
}

/**
 * Decodes a response schema, with its sibling members.
 * @param needed whether it is required
 * @throws GatewayError `invalid_field`
 */
export function readSchema(fields: Fields, needed: boolean): Format {
  const schema = fields.any("schema");
  if (schema === undefined ? needed : !(schema instanceof RawJson))
    throw invalidField(fields.path("schema"), `${fields.path("schema")} must be a JSON Schema.`);
  const named = { name: fields.text("name"), description: fields.text("description"), strict: fields.flag("strict") };
  if (named.strict) fields.declare("strict", "json_schema_strict");
  return { kind: "schema", ...defined({ schema: schema as RawJson | undefined, ...named }) };
}
