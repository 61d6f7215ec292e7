import { withPlainNames } from "./paths.ts";

/**
 * Parses JSON that a client may have written to mislead. `JSON.parse` of V8 takes a name with an escape for another one that it has
 * read before, in any text (https://github.com/nodejs/node/issues/63785): after `{"a":1,"file_i\\":2}` it reads `file_i\` in
 * `{"a":1,"file_i\u0064":2}`, where a provider reads `file_id`. Other escapes than `\u` cannot hide a name that is looked for.
 * @param mayEscapeNames whether a name may have such an escape; undefined: not known
 * @throws SyntaxError
 */
export const parseClientJson = (json: Buffer, mayEscapeNames = true): unknown =>
  JSON.parse((mayEscapeNames ? withPlainNames(json) : json).toString());
