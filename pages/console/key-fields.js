/** The fields of a key's form, as the admin API takes them. */

const items = (text, separator) =>
  text
    .split(separator)
    .map((each) => each.trim())
    .filter(Boolean);
const plain = (text) => text.trim();
const list = (text) => items(text, /[\s,]+/);

/** Values may have spaces, and `=`. */
const tags = (text) =>
  Object.fromEntries(
    items(text, ",").map((tag) => {
      const [name, ...value] = tag.split("=");
      return [name.trim(), value.join("=").trim()];
    }),
  );

const PARSERS = {
  ...{ name: plain, group: plain, owner: plain, tags, expires: (text) => Date.parse(text) },
  ...{ rpm: plain, tpm: plain, concurrency: plain, budget: (text) => items(text, ",") },
  ...{ models: list, paths: list, addresses: list },
};

/**
 * Returns the fields that are filled in; of a key that exists only those that have changed, as the form does not show all of each,
 * such as the hour at which a key expires. null removes a field.
 * @param texts of the form, by field
 * @param before the same when it was opened; undefined: the key is new
 */
export function fieldsOf(texts, before) {
  const fields = {};
  for (const [name, parse] of Object.entries(PARSERS)) {
    const isEmpty = /^[\s,]*$/.test(texts[name]);
    if (before ? texts[name] === before[name] : isEmpty) continue;
    fields[name] = isEmpty ? null : parse(texts[name]);
  }
  return fields;
}
