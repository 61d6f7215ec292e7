/** Each provider with the health of its targets and the state of its credentials. */

import { count, duration, percent } from "../common/format.js";
import { Dot, html, Ready, useState } from "../common/ui.js";
import { Table, useApi } from "./parts.js";
import { Patch } from "./patch.js";

const REFRESH = 3000;
const STATES = { closed: "asked as usual", open: "left alone", "half-open": "being tried" };
const CREDENTIALS = { ok: "ok", waiting: "rate limited", refused: "not accepted" };

const until = (moment) => (moment && moment > Date.now() ? ` for ${duration(moment - Date.now())}` : "");

export function Providers() {
  const found = useApi("/api/providers", REFRESH);
  return html`<h1>Providers</h1>
    <${Ready} found=${found}>
      ${({ providers }) => providers.map((provider) => html`<${Provider} key=${provider.name} provider=${provider} />`)}
    <//>`;
}

function Provider({ provider }) {
  const { name, url, speaks, off, credentials = [], targets = [], concurrency } = provider;
  const [patch, show] = useState(false);
  const columns = [
    {
      title: "Model there",
      head: true,
      of: ({ model, serves = [] }) =>
        html`<span class="mono">${model}</span><span class="sub">serves ${serves.join(", ") || "nothing"}</span>`,
    },
    {
      title: "State",
      of: (target) => html`<${Dot} state=${target.state}>${STATES[target.state]}${until(target.until)}<//>`,
    },
    { title: "Running", number: true, of: (target) => count(target.in_flight) },
    { title: "First byte", number: true, of: (target) => duration(target.first_byte) },
    {
      title: "Failed of late",
      number: true,
      of: ({ recent }) =>
        recent?.requests > 0 ? `${percent(recent.failed / recent.requests)} of ${count(recent.requests)}` : "–",
    },
    {
      title: "Credentials there",
      of: (target) =>
        html`${(target.credentials ?? []).filter(({ state }) => state !== "ok").map((each) => html`<${Credential} credential=${each} />`)}`,
    },
  ];
  return html`<section class="card provider" aria-labelledby=${`provider-${name}`}>
    <h2 id=${`provider-${name}`}>${name}</h2>
    ${off && html`<p><${Dot} state="off">off: ${off}<//></p>`}
    <dl class="facts">
      <dt>Address</dt><dd class="mono">${url}</dd>
      <dt>Speaks</dt><dd>${speaks.join(", ")}</dd>
      ${concurrency > 0 && html`<dt>At a time</dt><dd>${count(concurrency)}</dd>`}
      <dt>Credentials</dt><dd>${credentials.length === 0 ? "none is sent" : credentials.map((each) => html`<${Credential} credential=${each} />`)}</dd>
    </dl>
    ${targets.length > 0 && html`<${Table} caption=${`Targets of ${name}`} columns=${columns} rows=${targets} keyOf=${({ model }) => model} />`}
    <button type="button" class="small" aria-expanded=${String(patch)} onClick=${() => show(!patch)}>Change it in gateway.yaml</button>
    ${patch && html`<${Patch} what=${name} tree=${{ providers: { [name]: { concurrency: concurrency || 20, health: { failures: 5, open: "30s" } } } }} />`}
  </section>`;
}

const Credential = ({ credential: { label, state, until: moment } }) =>
  html`<${Dot} state=${state}><span class="mono">${label}</span> ${CREDENTIALS[state] ?? state}${until(moment)}<//> `;
