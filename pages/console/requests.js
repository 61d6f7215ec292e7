/** Ended requests, filtered by the URL. */

import { count, duration, ending, money } from "../common/format.js";
import { Dot, go, html, Link, Ready, useJson, When } from "../common/ui.js";
import { get } from "./api.js";
import { ofRequests, PAGE, spanOf } from "./asks.js";
import { NoRequest } from "./no-request.js";
import { Choice, Paging, SpanChoice, Table, Typed, useKeyNames } from "./parts.js";

const OUTCOMES = ["completed", "aborted", "upstream_error", "rejected", "failed", "interrupted"];
/** Fields by whose absence requests can be filtered. */
const WITHOUT = ["key", "group", "model", "target"];
const REFRESH = 10_000;

/**
 * Loads the requests of an API URL. Where few match, the API returns them in parts, which are shown as they arrive; `searchedTo` is
 * how far back the search is while it continues. A result of several parts is not reloaded, as it is expensive.
 */
async function searched(address, show) {
  const place = new URL(address, location.origin);
  const requests = [];
  for (let parts = 1; ; parts++) {
    const { requests: part, next } = await get(place.pathname + place.search);
    requests.push(...part);
    const searchedTo = requests.length < PAGE && next ? Number(next.split("_")[0]) : undefined;
    const value = { requests: [...requests], next, searchedTo, lasting: parts > 1 };
    if (searchedTo === undefined || !show(value)) return value;
    place.searchParams.set("before", next);
  }
}

export function Requests({ view }) {
  const span = spanOf(view);
  const found = useJson(ofRequests(view), { every: view.before ? 0 : REFRESH, load: searched });
  const nameOf = useKeyNames();
  const open = (event) => {
    event.preventDefault();
    const id = new FormData(event.currentTarget).get("id").trim();
    if (id !== "") go(`/requests/${encodeURIComponent(id)}`);
  };
  return html`<h1>Requests</h1>
    <div class="bar">
      <form class="bar" onSubmit=${open}>
        <label class="field">Open by id<input name="id" placeholder="x-request-id" spellcheck=${false} class="mono" /></label>
        <button>Open</button>
      </form>
      <${SpanChoice} span=${span} />
      <${Choice} label="Outcome" name="outcome" value=${view.outcome} options=${[["", "any"], ...OUTCOMES.map((each) => [each, each.replaceAll("_", " ")])]} />
      <${Typed} label="Status" name="status" value=${view.status} />
      <${Typed} label="Key" name="key" value=${view.key} />
      <${Typed} label="Group" name="group" value=${view.group} />
      <${Typed} label="Model" name="model" value=${view.model} />
      <${Typed} label="Target" name="target" value=${view.target} />
      <${Choice} label="Has no" name="without" value=${view.without} options=${[["", "–"], ...WITHOUT.map((each) => [each, each])]} />
      <${Typed} label="Slower than, ms" name="slower" value=${view.slower} type="number" />
      <${Typed} label="Dearer than, $" name="dearer" value=${view.dearer} type="number" step="any" />
    </div>
    <${Ready} found=${found}>
      ${({
        requests,
        next,
        searchedTo,
      }) => html`${(requests.length > 0 || !searchedTo) && html`<${RequestTable} requests=${requests} nameOf=${nameOf} />`}
        ${searchedTo && html`<p class="quiet" role="status">Still searching what came before <${When} ms=${searchedTo} />…</p>`}
        <${Paging} before=${view.before} next=${next} />`}
    <//>`;
}

function RequestTable({ requests, nameOf }) {
  const columns = [
    {
      title: "Time",
      head: true,
      of: ({ id, time }) => html`<${Link} to=${`/requests/${id}`}><${When} ms=${time} /><//>`,
    },
    {
      title: "Key",
      of: ({ key, group }) => html`${key ? nameOf(key) : "–"}${group && html`<span class="sub">${group}</span>`}`,
    },
    {
      title: "Model → target",
      of: ({ model, target }) => html`${model || "–"}<span class="sub mono">${target || "nobody was asked"}</span>`,
    },
    {
      title: "Outcome",
      of: ({ outcome, status, attempts }) =>
        html`<${Dot} state=${outcome}>${ending({ status, outcome })}<//>${attempts.length > 1 && html`<span class="sub">${attempts.length} tries</span>`}`,
    },
    { title: "First byte", number: true, of: ({ firstByte }) => duration(firstByte) },
    { title: "Time taken", number: true, of: (row) => duration(row.duration) },
    { title: "Tokens in", number: true, of: ({ usage }) => count(usage?.in.total) },
    { title: "Out", number: true, of: ({ usage }) => count(usage?.out.total) },
    { title: "Cost", number: true, of: ({ cost }) => money(cost) },
  ];
  return requests.length === 0
    ? html`<${NoRequest}>No request fits. Take a filter away, or look at more time.<//>`
    : html`<${Table} caption="Requests" columns=${columns} rows=${requests} keyOf=${({ id }) => id} />`;
}
