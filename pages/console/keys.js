/** Keys and groups: create, change, rotate, switch off, revoke. A key is shown once. */

import { counted, minute, money, utc } from "../common/format.js";
import { Dot, html, Link, look, Ready, useMemo, useState, When } from "../common/ui.js";
import { GROUPS, KEYS, SPENT, USED } from "./asks.js";
import { Groups, groupOff } from "./groups.js";
import { Issued } from "./issued.js";
import { KeyForm } from "./key-form.js";
import { Limits, USUAL_LIMITS } from "./limits.js";
import { Act, Table, Typed, useApi } from "./parts.js";
import { Patch } from "./patch.js";
import { withUnset } from "./yaml.js";

export function KeysPage({ view, may }) {
  const keys = useApi(KEYS);
  const spend = useApi(SPENT);
  const used = useApi(USED);
  const groups = useApi(GROUPS);
  const [issued, setIssued] = useState();
  const [form, setForm] = useState();
  const again = () => {
    keys.again();
    groups.again();
  };
  const shown = (answer) => {
    if (answer?.secret) setIssued(answer);
    again();
  };
  // Memoized, so that each part is redrawn only when its own data changes, not with every letter typed into a form.
  const table = useMemo(
    () => html`<${Ready} found=${keys}>
      ${(found) => html`<${KeyTable} keys=${found.keys} groups=${groups.value?.groups} view=${view} may=${may} spend=${spend.value} used=${used.value?.keys} edit=${setForm} done=${shown} />`}
    <//>`,
    [keys.state, keys.value, spend.value, used.value, groups.value, view.q, view.revoked, may],
  );
  const tree = useMemo(
    () =>
      html`<${Ready} found=${groups}>${(found) => html`<${Groups} groups=${found.groups} may=${may} done=${again} />`}<//>`,
    [groups.state, groups.value, may],
  );
  return html`<h1>Keys</h1>
    ${issued && html`<${Issued} key=${issued.secret} issued=${issued} view=${view} close=${() => setIssued(undefined)} />`}
    <div class="bar">
      ${may && html`<button class="main" type="button" onClick=${() => setForm({})}>Make a key</button>`}
      <${Typed} label="Find" name="q" value=${view.q} wide />
      <label class="check small"><input type="checkbox" checked=${view.revoked === "1"} onChange=${(event) => look({ revoked: event.currentTarget.checked ? "1" : "" })} /> revoked ones too</label>
    </div>
    ${form && html`<${KeyForm} key=${form.id ?? "new"} of=${form} close=${() => setForm(undefined)} done=${shown} />`}
    ${table}
    <h2>Groups</h2>
    ${tree}`;
}

const stateOf = ({ disabled, revoked, expires, rotating }, off) =>
  revoked
    ? ["refused", "revoked"]
    : disabled
      ? ["off", "switched off"]
      : off
        ? ["off", `${off} is switched off`]
        : expires && expires < Date.now()
          ? ["off", "expired"]
          : [rotating > Date.now() ? "waiting" : "ok", "works"];

function KeyTable({ keys, groups = [], view, may, spend, used, edit, done }) {
  const costs = new Map(spend?.rows.map(({ group: [id], cost, requests }) => [id, { cost, requests }]));
  const words = (view.q ?? "").toLowerCase();
  const rows = keys.filter(
    (key) =>
      (view.revoked === "1" || !key.revoked) &&
      [key.id, key.name, key.group, key.owner].some((text) => text?.toLowerCase().includes(words)),
  );
  const columns = [
    {
      title: "Key",
      head: true,
      of: ({ id, name, group, owner }) =>
        html`<${Link} to=${`/requests?key=${encodeURIComponent(id)}`}>${name}<//>${[group, owner].map((text) => text && html`<span class="sub">${text}</span>`)}<span class="sub mono">${id}</span>`,
    },
    {
      title: "May use",
      of: ({ models, paths }) =>
        html`${models ? models.join(", ") : html`<span class="whole">every model</span>`}${paths && html`<span class="sub">${paths.join(", ")}</span>`}`,
    },
    {
      title: "Own limits",
      of: (key) => html`<${Limits} of=${key} />`,
    },
    {
      title: "State",
      of: (key) => {
        const [state, words] = stateOf(key, groupOff(groups, key.group));
        return html`<${Dot} state=${state}>${words}<//>${key.expires && html`<span class="sub">until <${When} ms=${key.expires} /></span>`}${state === "waiting" && html`<span class="sub">its old secret too, until <${When} ms=${key.rotating} /></span>`}`;
      },
    },
    { title: "Used last", of: ({ id }) => html`<${Used} known=${used !== undefined} hour=${used?.[id]} />` },
    {
      title: "Spent, 30 days",
      number: true,
      of: ({ id }) =>
        // An answer that is not complete has the most expensive keys only.
        spend?.more && !costs.has(id)
          ? "–"
          : html`${money(costs.get(id)?.cost ?? 0)}<span class="sub">${counted(costs.get(id)?.requests ?? 0, "request")}</span>`,
    },
    {
      title: "",
      of: (key) =>
        !may || key.revoked
          ? null
          : key.source === "file"
            ? html`<${FileKey} of=${key} />`
            : html`<${Acts} of=${key} edit=${edit} done=${done} />`,
    },
  ];
  return html`<${Table} caption="Keys" columns=${columns} rows=${rows} keyOf=${({ id }) => id} empty="No key fits." />`;
}

/** The hour in which a key was last used: the ledger's sums are hourly. */
const Used = ({ known, hour }) =>
  hour
    ? html`<time datetime=${utc(hour)} title=${`in the hour from ${utc(hour)} on`}>${minute(hour)}</time>`
    : known
      ? "never"
      : "–";

const Acts = ({ of: { id, name, disabled, ...rest }, edit, done }) => html`<div class="acts">
  <button type="button" class="small" aria-label=${`Change ${name}`} onClick=${() => edit({ id, name, ...rest })}>Change</button>
  <${Act} label="Rotate" what=${name} sure=${`Make another key for ${name}? The one it has works for another day.`} act=${() => ["POST", `/api/keys/${id}/rotate`, { overlap: "24h" }]} done=${done} />
  <${Act} label=${disabled ? "Switch on" : "Switch off"} what=${name} act=${() => ["POST", `/api/keys/${id}/${disabled ? "enable" : "disable"}`]} done=${done} />
  <${Act} label="Revoke" what=${name} danger sure=${`Revoke ${name} for good? What runs with it ends.`} act=${() => ["DELETE", `/api/keys/${id}`]} done=${done} />
</div>`;

/** Examples of further settings of a key in the file. */
const USUAL = { models: ["fast-*"], paths: ["/v1/*"], addresses: ["10.0.0.0/8"], ...USUAL_LIMITS };

/** Keys of gateway.yaml are changed there. */
function FileKey({ of: { name, written } }) {
  const [open, show] = useState(false);
  return html`<button type="button" class="small" aria-expanded=${String(open)} onClick=${() => show(!open)}>Change in gateway.yaml<span class="hidden"> ${name}</span></button>
    ${open && html`<${Patch} what=${name} tree=${{ keys: { [name]: withUnset(written, USUAL) } }} now />`}`;
}
