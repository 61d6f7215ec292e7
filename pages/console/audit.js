/** The audit trail: who changed what, when and from where. */

import { html, Ready, When } from "../common/ui.js";
import { ofAudit } from "./asks.js";
import { linesOf } from "./detail.js";
import { Paging, Table, useApi } from "./parts.js";

function Detail({ detail }) {
  const lines = linesOf(detail);
  if (lines.length === 0) return "–";
  return html`<ul class="plain">${lines.map(
    ({ what, from, to, changed }) =>
      html`<li><span class="quiet">${what}:</span> ${
        changed &&
        html`${from ?? html`<i class="quiet">not set</i>`} <span aria-hidden="true">→</span><span class="hidden">now</span> `
      }${to === undefined ? html`<i class="quiet">not set</i>` : to.includes("\n") ? html`<pre class="verbatim">${to}</pre>` : to}</li>`,
  )}</ul>
    <details class="small"><summary>JSON</summary><span class="mono">${JSON.stringify(detail)}</span></details>`;
}

export function Audit({ view }) {
  const found = useApi(ofAudit(view));
  const columns = [
    { title: "Time", head: true, of: ({ time }) => html`<${When} ms=${time} />` },
    { title: "Who", of: ({ who, address }) => html`${who}<span class="sub">${address}</span>` },
    { title: "Did", of: ({ action }) => html`<span class="mono">${action}</span>` },
    { title: "To", of: ({ subject }) => subject ?? "–" },
    { title: "Detail", of: ({ detail }) => html`<${Detail} detail=${detail ?? {}} />` },
  ];
  return html`<h1>Audit</h1>
    <p class="quiet">Every change: made here, by the admin API, the command line or a signal; and every start, with what it serves.</p>
    <${Ready} found=${found}>
      ${({
        entries,
        next,
      }) => html`<${Table} caption="Changes" columns=${columns} rows=${entries} keyOf=${({ id }) => id} empty="Nothing was changed yet." />
        <${Paging} before=${view.before} next=${next} />`}
    <//>`;
}
