/** Keys and groups: make, change, rotate, switch off, revoke. A key is shown once. */

import { count, money } from "../common/format.js";
import { Code, Dot, html, Link, look, Ready, useEffect, useRef, useState, When } from "../common/ui.js";
import { change } from "./api.js";
import { GROUPS, KEYS, SPENT } from "./asks.js";
import { Act, Table, Typed, useApi } from "./parts.js";
import { Patch } from "./patch.js";

const DAY = 86_400_000;

export function KeysPage({ view, may }) {
  const keys = useApi(KEYS);
  const spend = useApi(SPENT);
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
  return html`<h1>Keys</h1>
    ${issued && html`<${Issued} issued=${issued} close=${() => setIssued(undefined)} />`}
    <div class="bar">
      ${may && html`<button class="main" type="button" onClick=${() => setForm({})}>Make a key</button>`}
      <${Typed} label="Find" name="q" value=${view.q} wide />
      <label class="check small"><input type="checkbox" checked=${view.revoked === "1"} onChange=${(event) => look({ revoked: event.currentTarget.checked ? "1" : "" })} /> revoked ones too</label>
    </div>
    ${form && html`<${KeyForm} key=${form.id ?? "new"} of=${form} close=${() => setForm(undefined)} done=${shown} />`}
    <${Ready} found=${keys}>
      ${(found) => html`<${KeyTable} keys=${found.keys} view=${view} may=${may} spend=${spend.value?.rows ?? []} edit=${setForm} done=${shown} />`}
    <//>
    <h2>Groups</h2>
    <${Ready} found=${groups}>${(found) => html`<${Groups} groups=${found.groups} />`}<//>`;
}

const Issued = ({ issued: { key, secret }, close }) => html`<div class="banner" role="status">
  <p><strong>The key of ${key.name}, shown this once:</strong></p>
  <${Code} text=${secret} label=${`the key of ${key.name}`} />
  <button type="button" onClick=${close}>I have it</button>
</div>`;

const stateOf = ({ disabled, revoked, expires, rotating }) =>
  revoked
    ? ["refused", "revoked"]
    : disabled
      ? ["off", "switched off"]
      : expires && expires < Date.now()
        ? ["off", "expired"]
        : rotating > Date.now()
          ? ["waiting", "the old one works too"]
          : ["ok", "works"];

function KeyTable({ keys, view, may, spend, edit, done }) {
  const costs = new Map(spend.map(({ group: [id], cost, requests }) => [id, { cost, requests }]));
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
      of: ({ id, name, owner }) =>
        html`<${Link} to=${`/requests?key=${encodeURIComponent(id)}`}>${name}<//><span class="sub mono">${id}</span>${owner && html`<span class="sub">${owner}</span>`}`,
    },
    { title: "Group", of: ({ group }) => group ?? "–" },
    {
      title: "May use",
      of: ({ models, paths }) =>
        html`${models ? models.join(", ") : "every model"}${paths && html`<span class="sub">${paths.join(", ")}</span>`}`,
    },
    {
      title: "Own limits",
      of: (key) =>
        LIMITS.filter(([name]) => wordsOf(key[name]) !== "").map(
          ([name]) => html`<div>${name} ${wordsOf(key[name])}</div>`,
        ),
    },
    {
      title: "State",
      of: (key) =>
        html`<${Dot} state=${stateOf(key)[0]}>${stateOf(key)[1]}<//>${key.expires && html`<span class="sub">until <${When} ms=${key.expires} /></span>`}`,
    },
    {
      title: "Spent, 30 days",
      number: true,
      of: ({ id }) =>
        html`${money(costs.get(id)?.cost ?? 0)}<span class="sub">${count(costs.get(id)?.requests ?? 0)} requests</span>`,
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

const Acts = ({ of: { id, name, disabled, ...rest }, edit, done }) => html`
  <button type="button" class="small" aria-label=${`Change ${name}`} onClick=${() => edit({ id, name, ...rest })}>Change</button>
  ${" "}<${Act} label="Rotate" what=${name} sure=${`Make another key for ${name}? The one it has works for another day.`} act=${() => ["POST", `/api/keys/${id}/rotate`, { overlap: "24h" }]} done=${done} />
  ${" "}<${Act} label=${disabled ? "Switch on" : "Switch off"} what=${name} act=${() => ["POST", `/api/keys/${id}/${disabled ? "enable" : "disable"}`]} done=${done} />
  ${" "}<${Act} label="Revoke" what=${name} danger sure=${`Revoke ${name} for good? What runs with it ends.`} act=${() => ["DELETE", `/api/keys/${id}`]} done=${done} />`;

/** Keys of gateway.yaml are changed there. */
function FileKey({ of: { name } }) {
  const [open, show] = useState(false);
  return html`<button type="button" class="small" aria-expanded=${String(open)} onClick=${() => show(!open)}>Change in gateway.yaml<span class="hidden"> ${name}</span></button>
    ${open && html`<${Patch} what=${name} tree=${{ keys: { [name]: { models: ["*"], budget: "$10/day", rpm: 300 } } }} />`}`;
}

const list = (text) => text.split(/[\s,]+/).filter(Boolean);

/** Fields of a key; an empty one is taken away. */
function fieldsOf(data, editing) {
  const text = (name) => data.get(name).trim();
  const none = editing ? null : undefined;
  const or = (value, empty) => (empty ? none : value);
  const lists = Object.fromEntries(
    ["models", "paths", "addresses"].map((name) => [name, or(list(text(name)), list(text(name)).length === 0)]),
  );
  const limits = Object.fromEntries(
    ["rpm", "tpm", "concurrency"].map((name) => [name, or(text(name), text(name) === "")]),
  );
  const budget = text("budget")
    .split(",")
    .map((each) => each.trim())
    .filter(Boolean);
  const pairs = list(text("tags")).map((pair) => pair.split("="));
  return {
    name: text("name"),
    group: or(text("group"), text("group") === ""),
    owner: or(text("owner"), text("owner") === ""),
    tags: or(Object.fromEntries(pairs), pairs.length === 0),
    expires: or(Date.parse(text("expires")), text("expires") === ""),
    budget: or(budget, budget.length === 0),
    ...limits,
    ...lists,
  };
}

/** A key's own limits: the field, what it is called, and what may stand there. */
const LIMITS = [
  ["rpm", "Requests a minute", "300"],
  ["tpm", "Tokens a minute", "1M"],
  ["concurrency", "At a time", "20"],
  ["budget", "Budget", "$50/month, $5/day"],
];

const wordsOf = (value) => (Array.isArray(value) ? value.join(", ") : value === undefined ? "" : String(value));

function KeyForm({ of, close, done }) {
  const [error, setError] = useState();
  const first = useRef();
  useEffect(() => first.current?.focus(), []);
  const send = async (event) => {
    event.preventDefault();
    const fields = fieldsOf(new FormData(event.currentTarget), of.id !== undefined);
    try {
      const answer =
        of.id === undefined
          ? await change("POST", "/api/keys", fields)
          : await change("PATCH", `/api/keys/${of.id}`, fields);
      close();
      done(answer);
    } catch (thrown) {
      setError(thrown);
    }
  };
  const date = of.expires ? new Date(of.expires).toISOString().slice(0, 10) : "";
  const least = new Date(Date.now() + DAY).toISOString().slice(0, 10);
  return html`<form class="card" onSubmit=${send} aria-label=${of.id ? `Change ${of.name}` : "Make a key"}>
    <div class="bar">
      <label class="field">Name<input name="name" ref=${first} required defaultValue=${of.name} /></label>
      <label class="field">Group<input name="group" placeholder="acme/research" defaultValue=${of.group} /></label>
      <label class="field">Owner<input name="owner" defaultValue=${of.owner} /></label>
      <label class="field">Expires (UTC)<input name="expires" type="date" min=${least} defaultValue=${date} /></label>
      ${LIMITS.map(
        ([name, title, hint]) =>
          html`<label class="field">${title}<input name=${name} placeholder=${hint} defaultValue=${wordsOf(of[name])} /></label>`,
      )}
      <label class="field wide">Models, by id; * is any text<input name="models" placeholder="all" defaultValue=${(of.models ?? []).join(", ")} /></label>
      <label class="field wide">Paths<input name="paths" placeholder="all" defaultValue=${(of.paths ?? []).join(", ")} /></label>
      <label class="field wide">Addresses<input name="addresses" placeholder="all" defaultValue=${(of.addresses ?? []).join(", ")} /></label>
      <label class="field wide">Tags<input name="tags" placeholder="team=search" defaultValue=${Object.entries(
        of.tags ?? {},
      )
        .map((tag) => tag.join("="))
        .join(", ")} /></label>
    </div>
    ${error && html`<p class="bad" role="alert">${error.message}</p>`}
    <p class="bar"><button class="main">${of.id ? "Save" : "Make it"}</button><button type="button" onClick=${close}>Not now</button></p>
  </form>`;
}

function Groups({ groups }) {
  const [open, show] = useState();
  const columns = [
    {
      title: "Group",
      head: true,
      of: ({ group }) => html`<${Link} to=${`/requests?since=30d&group=${encodeURIComponent(group)}`}>${group}<//>`,
    },
    { title: "Keys", of: ({ keys = [] }) => keys.join(", ") || "–" },
    { title: "Spent, 30 days", number: true, of: ({ cost }) => money(cost) },
    { title: "Requests", number: true, of: ({ requests }) => count(requests) },
    {
      title: "",
      of: ({ group }) =>
        html`<button type="button" class="small" aria-expanded=${String(open === group)} onClick=${() => show(open === group ? undefined : group)}>Limit<span class="hidden"> ${group}</span></button>`,
    },
  ];
  return html`<${Table} caption="Groups" columns=${columns} rows=${groups} keyOf=${({ group }) => group} empty="No key is in a group." />
    ${open && html`<${Patch} what=${open} tree=${{ limits: { groups: { [open]: { rpm: 3000, tpm: "1M", concurrency: 50, budget: "$1000/month" } } } }} />`}`;
}
