/** Formats lines of gateway.yaml. */

/** Reports whether a word is no keyword that a YAML parser takes for another type. */
const isWord = (text) => !/^(?:true|false|null|yes|no|on)$/i.test(text);

/** Formats a scalar: a plain word, and a number with its unit, need no quotes. */
const scalar = (value) =>
  typeof value !== "string" ||
  (/^(?:[A-Za-z$/](?:[\w./$*@ -]*[\w./$*@-])?|\d+(?:[A-Za-z]{1,3}|%))$/.test(value) && isWord(value))
    ? String(value)
    : JSON.stringify(value);

const key = (name) => (/^[\w./][\w./@*-]*$/.test(name) && isWord(name) ? name : JSON.stringify(name));

/** A setting that the file lacks, with an example value: written as a comment, so that pasting the lines changes nothing. */
class UnsetSetting {
  constructor(value) {
    this.value = value;
  }
}

/**
 * Returns the written settings, followed by unset ones as comments.
 * @param written as in the file
 * @param more example values of unset settings
 */
export const withUnset = (written, more) => ({
  ...written,
  ...Object.fromEntries(
    Object.entries(more).flatMap(([name, value]) => (name in written ? [] : [[name, new UnsetSetting(value)]])),
  ),
});

/** Reports whether a value is a mapping. */
const isTree = (value) =>
  value !== null && typeof value === "object" && !Array.isArray(value) && !(value instanceof UnsetSetting);

/**
 * Reports whether a value is to be written as a comment. A key with only comments below it would have the value null, so it
 * becomes one too.
 */
const isUnset = (value) =>
  value instanceof UnsetSetting ||
  (isTree(value) && Object.keys(value).length > 0 && Object.values(value).every(isUnset));

const plainValue = (value) =>
  value instanceof UnsetSetting
    ? plainValue(value.value)
    : isTree(value)
      ? Object.fromEntries(Object.entries(value).map(([name, each]) => [name, plainValue(each)]))
      : value;

/** Formats a value in one line. */
const inline = (value) =>
  Array.isArray(value)
    ? `[${value.map(inline).join(", ")}]`
    : value === null || typeof value !== "object"
      ? scalar(value)
      : `{ ${Object.entries(value)
          .map(([name, each]) => `${key(name)}: ${inline(each)}`)
          .join(", ")} }`;

/** Formats a tree of plain values as YAML; settings added by `withUnset` become comments. */
export function yaml(tree, indent = "") {
  return Object.entries(tree)
    .map(([name, value]) => {
      if (isUnset(value)) return yaml({ [name]: plainValue(value) }).replaceAll(/^/gm, `${indent}# `);
      if (!isTree(value)) return `${indent}${key(name)}: ${inline(value)}`;
      return `${indent}${key(name)}:\n${yaml(value, `${indent}  `)}`;
    })
    .join("\n");
}
