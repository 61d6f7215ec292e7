/** Links with which a client's program takes the settings over. */

const base64 = (text) => btoa(String.fromCharCode(...new TextEncoder().encode(text)));

/** Fills in every text of a JSON value. A member that is only the key is left out without one. */
function filled(value, values) {
  if (typeof value === "string")
    return value.replaceAll(/\{\{(address|key|model|host)\}\}/g, (_, name) => values[name]);
  if (Array.isArray(value)) return value.map((each) => filled(each, values));
  if (typeof value !== "object" || value === null) return value;
  const members = Object.entries(value).filter(([, each]) => each !== "{{key}}" || values.key !== "");
  return Object.fromEntries(members.map(([name, each]) => [name, filled(each, values)]));
}

/**
 * Returns a client's link; undefined: it has none, or none without a key.
 * @param values address, model, and the key that the reader has typed, or an empty text
 */
export function importLink({ link }, { address, key, model }) {
  if (!link || (link.needs_key && key === "")) return undefined;
  const host = new URL(address).host.replaceAll(/[^\w.-]/g, "-");
  const json = JSON.stringify(filled(link.json, { address, key, model, host }));
  return link.url.replace("{{json}}", () => encodeURIComponent(base64(json)));
}
