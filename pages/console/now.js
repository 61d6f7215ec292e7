/** The current state, and what needs an operator. */

import { count, counted, duration, money, percent } from "../common/format.js";
import { Card, Dot, html, Link, Ready, useMemo } from "../common/ui.js";
import { useLive } from "./live.js";
import { NoRequest } from "./no-request.js";
import { Act, only, spread, Table } from "./parts.js";

export function Now({ may }) {
  const { live, now, hour } = useLive();
  // Memoized, so that it is redrawn only when its own data changes.
  const running = useMemo(
    () =>
      html`<${Ready} found=${live}>${({ requests, running }) => html`<${Live} requests=${requests} running=${running} may=${may} />`}<//>`,
    [live, may],
  );
  // No request so far; the ledger lags slightly behind.
  const idle = now.value?.last_hour?.requests === 0 && live.value?.running === 0;
  return html`<h1>Now</h1>
    <${Ready} found=${now}>${(facts) => html`<${Attention} items=${facts.attention} /><${Figures} facts=${facts} />`}<//>
    <h2>Running</h2>
    ${idle ? html`<${NoRequest}>No request runs now.<//>` : running}
    <div class="split">
      <section aria-labelledby="errors">
        <h2 id="errors">Errors of the last hour</h2>
        <${Ready} found=${hour}>
          ${({ errors, attempts, overhead }) => html`<${Errors} rows=${errors} /><${FailedAttempts} rows=${attempts} /><${Overhead} of=${overhead} />`}
        <//>
      </section>
      <section aria-labelledby="speed">
        <h2 id="speed">Speed in the last hour</h2>
        <${Ready} found=${hour}>
          ${({ models, targets }) => html`<${Speed} what="Model" rows=${models} />${targets.length > 0 && html`<${Speed} what="Target" rows=${targets} />`}`}
        <//>
      </section>
    </div>`;
}

function Attention({ items = [] }) {
  const [warnings, others] = [items.filter(({ warning }) => warning), items.filter(({ warning }) => !warning)];
  return html`<${Banner} title="Needs attention" state="bad" items=${others} /><${Banner} title="Warnings" items=${warnings} />`;
}

function Banner({ title, state = "", items }) {
  if (items.length === 0) return null;
  const links = {
    budget: "/money",
    provider: "/providers",
    target: "/providers",
    reload: "/config",
  };
  return html`<div class=${`banner ${state}`} role="status">
    <strong>${title}</strong>
    <ul>
      ${items.map(
        ({ kind, name, message }) =>
          html`<li><strong>${kind} ${name}</strong>: ${message}${
            links[kind] && html` <${Link} to=${links[kind]} aria-label=${`Look at ${kind} ${name}`}>Look<//>`
          }</li>`,
      )}
    </ul>
  </div>`;
}

function Figures({ facts }) {
  const { last_hour: hour = {}, spend = {}, first_byte: first, tokens_per_second: tokens } = facts;
  const { today, yesterday_by_now: before } = spend;
  const change =
    today === undefined
      ? "the ledger does not respond"
      : before > 0
        ? `${today >= before ? "+" : "−"}${percent(Math.abs(today / before - 1))} on ${money(before)} by this time yesterday`
        : "nothing by this time yesterday";
  const wrong = (hour.ours ?? 0) + (hour.upstream ?? 0);
  const failed = hour.requests > 0 ? wrong / hour.requests : hour.requests;
  const there = hour.refused_there ?? 0;
  const refused = Math.max(0, (hour.failed ?? 0) - wrong - there);
  return html`<div class="cards">
    <${Card} title="Running" value=${count(facts.running)} under=${`${counted(facts.streams, "stream")}, ${counted(facts.sockets, "WebSocket")}`} />
    <${Card} title="Requests a second" value=${facts.requests_per_second?.toFixed(1) ?? "–"} under=${`${count(hour.requests)} in the last hour`} />
    <${Card} title="Errors, last hour" value=${percent(failed)} state=${failed > 0.05 ? "bad" : ""} under=${`${count(hour.ours)} ours, ${count(hour.upstream)} theirs; refused: ${count(there)} by providers, ${count(refused)} here or left`} />
    <${Card} title="429, last hour" value=${count((hour.limited_here ?? 0) + (hour.limited_there ?? 0))} under=${`${counted(hour.limited_here, "request")} by our limits, ${counted(hour.limited_there, "attempt")} by providers`} />
    <${Card} title="First byte, p50 / p95" value=${spread(first)} under=${`of ${counted(first?.count ?? 0, "answer")}`} />
    <${Card} title="Tokens a second, p50 / p95" value=${spread(tokens, (n) => count(Math.round(n)))} under=${`of ${counted(tokens?.count ?? 0, "stream")}`} />
    <${Card} title="Spent today" value=${money(today)} under=${change} />
    <${Card} title="Up for" value=${duration(facts.time - facts.started)} under=${`version ${facts.version}, generation ${facts.generation}, store ${facts.parts?.store ?? "?"}`} />
  </div>
  <p class="quiet small">“Running” and “Up for” are of this gateway. All other figures are of every gateway with the same store.</p>`;
}

const STATES = { waiting: "waits", asking: "asks", streaming: "streams" };

function Live({ requests, running, may }) {
  const columns = [
    { title: "Age", number: true, of: ({ age }) => duration(age) },
    {
      title: "Key",
      of: ({ key, name, group }) => html`${name ?? key ?? "–"}${group && html`<span class="sub">${group}</span>`}`,
    },
    {
      title: "Model → target",
      head: true,
      of: ({ id, model, target }) =>
        html`<${Link} to=${`/requests/${id}`}>${model ?? "not known yet"}<//>${target && html`<span class="sub mono">${target}</span>`}`,
    },
    {
      title: "State",
      of: ({ state, kind }) =>
        html`<${Dot} state=${state}>${STATES[state] ?? state}<//>${kind !== "request" && html`<span class="sub">${kind}</span>`}`,
    },
    { title: "Tries", number: true, of: ({ attempts }) => count(attempts) },
    { title: "First byte", number: true, of: ({ first_byte: first }) => duration(first) },
    { title: "Tokens so far", number: true, of: ({ tokens }) => count(tokens) },
    {
      title: "",
      of: ({ id, model }) =>
        may &&
        html`<${Act} label="Cancel" what=${`the request for ${model ?? id}`} danger act=${() => ["POST", `/api/live/${id}/cancel`]} />`,
    },
  ];
  return html`${running > requests.length && html`<p class="quiet small">The ${requests.length} oldest of ${count(running)}.</p>`}
    <${Table} caption="Requests that run now" columns=${columns} rows=${requests} keyOf=${({ id }) => id} empty="No request runs now." />`;
}

/** One row for each target with its status; requests without a target were refused by the gateway. */
function Errors({ rows }) {
  const columns = [
    {
      title: "Who",
      head: true,
      of: ({ target }) => (target ? html`<span class="mono">${target}</span>` : html`<strong>the gateway</strong>`),
    },
    { title: "Model", of: ({ model }) => model || "–" },
    { title: "Status", number: true, of: ({ status }) => status || "–" },
    { title: "Outcome", of: ({ outcome }) => html`<${Dot} state=${outcome}>${outcome.replaceAll("_", " ")}<//>` },
    {
      title: "Requests",
      number: true,
      of: (row) =>
        html`<${Link} to=${`/requests?since=1h&outcome=${row.outcome}${row.status ? `&status=${row.status}` : ""}&${only("target", row.target)}`}>${count(row.requests)}<//>`,
    },
  ];
  return html`<${Table} caption="Errors by target" columns=${columns} rows=${rows} empty="No error in the last hour." />`;
}

/** Failures of a provider that a fallback or a retry hides: they are visible in no request's status. */
function FailedAttempts({ rows }) {
  const columns = [
    { title: "Who", head: true, of: ({ target }) => html`<span class="mono">${target}</span>` },
    {
      title: "Answered",
      of: ({ status, error }) => html`${status ?? "nothing"}${error && html`<span class="sub">${error}</span>`}`,
    },
    { title: "Attempts", number: true, of: ({ attempts }) => count(attempts) },
    { title: "Recovered", number: true, of: ({ answered }) => count(answered) },
  ];
  return html`<${Table} caption="Failed attempts by target" columns=${columns} rows=${rows} empty="No attempt failed in the last hour." />
    <p class="quiet small">Of each request every attempt counts; recovered are those after which another one succeeded.</p>`;
}

/** The gateway's own time, from the head of a request to its first attempt. */
function Overhead({ of: found }) {
  if (!found) return null;
  return html`<p class="quiet small">The gateway's own time, from a request's head to its first attempt: ${duration(found.p50)} median, ${duration(found.p95)} p95, of the newest ${counted(found.count, "request")}.</p>`;
}

function Speed({ what, rows }) {
  const columns = [
    { title: what, head: true, of: ({ name }) => html`<span class="mono">${name || "–"}</span>` },
    { title: "Requests", number: true, of: ({ requests }) => count(requests) },
    { title: "First byte p50 / p95", number: true, of: ({ first_byte: first }) => spread(first) },
    {
      title: "Tokens/s p50 / p95",
      number: true,
      of: ({ tokens_per_second: tokens }) => spread(tokens, (n) => count(Math.round(n))),
    },
  ];
  return html`<${Table} caption=${`Speed by ${what}`} columns=${columns} rows=${rows} empty="No request in the last hour." />`;
}
