/** Lines of gateway.yaml. */

/** Words that some readers of YAML take for something else. */
const isWord = (text) => !/^(?:true|false|null|yes|no|on)$/i.test(text);

/** A plain word needs no quotes in YAML, nor a number with its unit. */
const scalar = (value) =>
  typeof value !== "string" ||
  (/^(?:[A-Za-z$/](?:[\w./$*@ -]*[\w./$*@-])?|\d+(?:[A-Za-z]{1,3}|%))$/.test(value) && isWord(value))
    ? String(value)
    : JSON.stringify(value);

const key = (name) => (/^[\w./][\w./@*-]*$/.test(name) && isWord(name) ? name : JSON.stringify(name));

/** What the file does not say, with what could stand there: a comment, so that lines as they are change nothing. */
class Unsaid {
  constructor(value) {
    this.value = value;
  }
}

/**
 * What the file says of something, and behind that as comments what it could say.
 * @param written in the file's own words
 * @param more what could stand there
 */
export const saying = (written, more) => ({
  ...written,
  ...Object.fromEntries(
    Object.entries(more).flatMap(([name, value]) => (name in written ? [] : [[name, new Unsaid(value)]])),
  ),
});

/** What has names, and is no list. */
const isTree = (value) =>
  value !== null && typeof value === "object" && !Array.isArray(value) && !(value instanceof Unsaid);

/** A name with nothing but comments below it would say that it is empty: it is one itself. */
const isUnsaid = (value) =>
  value instanceof Unsaid || (isTree(value) && Object.keys(value).length > 0 && Object.values(value).every(isUnsaid));

const said = (value) =>
  value instanceof Unsaid
    ? said(value.value)
    : isTree(value)
      ? Object.fromEntries(Object.entries(value).map(([name, each]) => [name, said(each)]))
      : value;

/** A value in one line. */
const inline = (value) =>
  Array.isArray(value)
    ? `[${value.map(inline).join(", ")}]`
    : value === null || typeof value !== "object"
      ? scalar(value)
      : `{ ${Object.entries(value)
          .map(([name, each]) => `${key(name)}: ${inline(each)}`)
          .join(", ")} }`;

/** Lines of YAML for a tree of plain values; what `saying` adds are comments. */
export function yaml(tree, indent = "") {
  return Object.entries(tree)
    .map(([name, value]) => {
      if (isUnsaid(value)) return yaml({ [name]: said(value) }).replaceAll(/^/gm, `${indent}# `);
      if (!isTree(value)) return `${indent}${key(name)}: ${inline(value)}`;
      return `${indent}${key(name)}:\n${yaml(value, `${indent}  `)}`;
    })
    .join("\n");
}
