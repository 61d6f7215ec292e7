/** Groups as a tree: keys, limits and spending, each with everything below it. */

import { count, money } from "../common/format.js";
import { html, Link, useState } from "../common/ui.js";
import { Limits, USUAL_LIMITS } from "./limits.js";
import { Table } from "./parts.js";
import { Patch } from "./patch.js";
import { saying } from "./yaml.js";

/** Keys that are listed by name; further ones are counted. */
const NAMED = 5;

export function Groups({ groups }) {
  const [open, show] = useState();
  const chosen = groups.find(({ group }) => group === open);
  const columns = [
    { title: "Group", head: true, of: ({ group }) => html`<${Name} path=${group} />` },
    { title: "Keys", of: ({ keys = [] }) => namesOf(keys) },
    { title: "Limits", of: (group) => html`<${Limits} of=${group} />` },
    { title: "Spent, 30 days", number: true, of: ({ cost }) => money(cost) },
    { title: "Requests", number: true, of: ({ requests }) => count(requests) },
    {
      title: "",
      of: ({ group }) =>
        html`<button type="button" class="small" aria-expanded=${String(open === group)} onClick=${() => show(open === group ? undefined : group)}>Limit<span class="hidden"> ${group}</span></button>`,
    },
  ];
  return html`<${Table} caption="Groups" columns=${columns} rows=${groups} keyOf=${({ group }) => group} empty="No key is in a group." />
    ${chosen && html`<${Patch} what=${open} tree=${{ limits: { groups: { [open]: saying(chosen.written, USUAL_LIMITS) } } }} now />`}`;
}

/** The last part of a path, indented by its depth; screen readers get the whole path. */
function Name({ path }) {
  const parts = path.split("/");
  return html`<span class="branch" style=${{ "--depth": parts.length - 1 }}><${Link} to=${`/requests?since=30d&group=${encodeURIComponent(path)}`} aria-label=${path}>${parts.at(-1)}<//></span>`;
}

function namesOf(keys) {
  if (keys.length === 0) return "–";
  const more = keys.length - NAMED;
  return `${keys.slice(0, NAMED).join(", ")}${more > 0 ? ` and ${count(more)} more` : ""}`;
}
