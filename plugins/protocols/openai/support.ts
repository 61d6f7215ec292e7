import {
  asObject,
  dropUndefined,
  type Fields,
  type Format,
  invalidField,
  RawJson,
  type Setting,
} from "model-gateway/protocol";

/** Writes nothing: for a row whose member is only decoded, because other vendors have no equivalent. */
export const writeNothing = (): undefined => undefined;

/** Sampling settings common to chat and text completions. */
export const SAMPLING_SETTINGS: readonly Setting[] = [
  {
    path: "max_completion_tokens",
    olderNames: ["max_tokens"],
    field: "maxTokens",
    feature: "max_tokens",
    type: "number",
    // The vendor always responds with at least one token.
    range: [1, Number.POSITIVE_INFINITY],
  },
  { path: "stop", field: "stop", feature: "stop", type: "texts", maxLength: 4, ...listOrString() },
  { path: "temperature", field: "temperature", feature: "temperature", type: "number", range: [0, 2], sampling: true },
  { path: "top_p", field: "topP", feature: "top_p", type: "number", sampling: true },
  { path: "top_k", field: "topK", feature: "top_k", type: "number", write: writeNothing },
  {
    path: "frequency_penalty",
    field: "frequencyPenalty",
    feature: "penalties",
    type: "number",
    hasNoEffect: (penalty) => penalty === 0,
  },
  {
    path: "presence_penalty",
    field: "presencePenalty",
    feature: "penalties",
    type: "number",
    hasNoEffect: (penalty) => penalty === 0,
  },
  { path: "seed", field: "seed", feature: "seed", type: "integer" },
  {
    path: "logit_bias",
    field: "logitBias",
    feature: "logit_bias",
    type: "any",
    hasNoEffect: (bias) => Object.keys(asObject(bias) ?? { bias }).length === 0,
    write: writeNothing,
  },
  {
    path: "n",
    field: "choices",
    feature: "choices",
    type: "number",
    hasNoEffect: (choices) => (choices as number) <= 1,
  },
];

/** One string is equivalent to a list of it. */
function listOrString(): Pick<Setting, "read" | "write" | "hasNoEffect"> {
  return {
    read(fields: Fields, name: string) {
      const value = fields.any(name);
      const list = typeof value === "string" ? [value] : value;
      if (Array.isArray(list) && list.every((item) => typeof item === "string")) return list;
      throw invalidField(fields.path(name), `${fields.path(name)} must be a string or a list of strings.`);
    },
    write: (list: readonly string[]) => (list.length > 0 ? list : undefined),
    hasNoEffect: (list) => (list as readonly string[]).length === 0,
  };
}

/**
 * Decodes a response schema, with its sibling members.
 * @param isRequired whether it is required
 * @throws GatewayError `invalid_field`
 */
export function readJsonSchemaFormat(fields: Fields, isRequired: boolean): Format {
  const schema = fields.any("schema");
  if (schema === undefined ? isRequired : !(schema instanceof RawJson))
    throw invalidField(fields.path("schema"), `${fields.path("schema")} must be a JSON Schema.`);
  const properties = {
    name: fields.text("name"),
    description: fields.text("description"),
    strict: fields.flag("strict"),
  };
  if (properties.strict) fields.declare("strict", "json_schema_strict");
  return { kind: "schema", ...dropUndefined({ schema: schema as RawJson | undefined, ...properties }) };
}
