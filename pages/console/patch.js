/** Structure stands in gateway.yaml alone: what belongs there is shown as lines to paste, and never written by the console. */

import { Code, html } from "../common/ui.js";

/** A plain word needs no quotes in YAML. */
const scalar = (value) =>
  typeof value !== "string" ||
  (/^[A-Za-z$/][\w./$*@ -]*$/.test(value) &&
    !/^(?:true|false|null|yes|no|on|off)$/i.test(value.trim()) &&
    !value.endsWith(" "))
    ? String(value)
    : JSON.stringify(value);

const key = (name) => (/^[\w./@*-]+$/.test(name) ? name : JSON.stringify(name));

/** A member of a list: a word, or names with their values. */
const inline = (value) =>
  value === null || typeof value !== "object"
    ? scalar(value)
    : `{ ${Object.entries(value)
        .map(([name, each]) => `${key(name)}: ${scalar(each)}`)
        .join(", ")} }`;

/** Lines of YAML for a tree of plain values. */
export function yaml(tree, indent = "") {
  return Object.entries(tree)
    .map(([name, value]) => {
      if (Array.isArray(value)) return `${indent}${key(name)}: [${value.map(inline).join(", ")}]`;
      if (value === null || typeof value !== "object") return `${indent}${key(name)}: ${scalar(value)}`;
      return `${indent}${key(name)}:\n${yaml(value, `${indent}  `)}`;
    })
    .join("\n");
}

export const Patch = ({ tree, what }) => html`<p class="small">
    Put this into gateway.yaml, merged with what is there, and reload (<code>model-gateway reload</code>, or the page Config):
  </p>
  <${Code} text=${yaml(tree)} label=${`lines for gateway.yaml: ${what}`} />`;
