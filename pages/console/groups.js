/** Groups as a tree: keys, limits and spending, each with everything below it. */

import { count, money } from "../common/format.js";
import { Dot, html, Link, useState } from "../common/ui.js";
import { Limits, USUAL_LIMITS } from "./limits.js";
import { Act, Table } from "./parts.js";
import { Patch } from "./patch.js";
import { withUnset } from "./yaml.js";

/** Keys that are listed by name; further ones are counted. */
const NAMED = 5;

/** The group itself or the nearest one above it that is switched off. @param groups all of them */
export function groupOff(groups, path) {
  const off = groups.map((each) => each.disabled && each.group);
  let at = path;
  while (at && !off.includes(at)) at = at.slice(0, Math.max(0, at.lastIndexOf("/")));
  return at || undefined;
}

export function Groups({ groups, may, done }) {
  const [open, show] = useState();
  const chosen = groups.find(({ group }) => group === open);
  const columns = [
    { title: "Group", head: true, of: ({ group }) => html`<${Name} path=${group} />` },
    { title: "Keys", of: ({ keys = [] }) => namesOf(keys) },
    { title: "Limits", of: (group) => html`<${Limits} of=${group} />` },
    { title: "State", of: ({ group }) => stateOf(groupOff(groups, group), group) },
    { title: "Spent, 30 days", number: true, of: ({ cost }) => money(cost) },
    { title: "Requests", number: true, of: ({ requests }) => count(requests) },
    {
      title: "",
      of: ({ group, disabled }) =>
        html`<div class="acts">${may && html`<${Act} label=${disabled ? "Switch on" : "Switch off"} what=${group} sure=${disabled ? undefined : `Switch off all keys of ${group} and below it? What runs with them ends.`} act=${() => ["POST", `/api/groups/${encodeURIComponent(group)}/${disabled ? "enable" : "disable"}`]} done=${done} />`}
          <button type="button" class="small" aria-expanded=${String(open === group)} onClick=${() => show(open === group ? undefined : group)}>Limit<span class="hidden"> ${group}</span></button></div>`,
    },
  ];
  return html`<${Table} caption="Groups" columns=${columns} rows=${groups} keyOf=${({ group }) => group} empty="No key is in a group." />
    ${chosen && html`<${Patch} what=${open} tree=${{ limits: { groups: { [open]: withUnset(chosen.written, USUAL_LIMITS) } } }} now />`}`;
}

const stateOf = (off, group) =>
  off === undefined
    ? html`<${Dot} state="ok">works<//>`
    : html`<${Dot} state="off">switched off<//>${off !== group && html`<span class="sub">with ${off}</span>`}`;

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
