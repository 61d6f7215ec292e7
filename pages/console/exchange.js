/** One exchange by its id: its attempts, times and cost. */

import { count, counted, duration, ending, indented, money } from "../common/format.js";
import { Code, Copy, Dot, html, Link, Ready, useState, When } from "../common/ui.js";
import { ofRequest } from "./asks.js";
import { Act, Table, useApi, useKeyNames } from "./parts.js";
import { stretches } from "./stretches.js";

const REFRESH = 2000;

export function Exchange({ id, may }) {
  const found = useApi(ofRequest(id));
  const live = useApi(found.value?.live ? ofRequest(id) : undefined, REFRESH);
  const nameOf = useKeyNames();
  const shown = live.value ? live : found;
  return html`<p class="small"><${Link} to="/requests">Requests<//> / <span class="mono">${id}</span> <${Copy} text=${id} what="the id" /></p>
    <h1>Request</h1>
    <${Ready} found=${shown}>
      ${({
        request,
        live: running,
      }) => html`${running && html`<${Running} live=${running} may=${may} again=${found.again} />`}
        ${request && html`<${Ended} request=${request} nameOf=${nameOf} may=${may} />`}
        ${request && html`<${Kept} id=${id} may=${may} />`}`}
    <//>`;
}

const Running = ({ live, may, again }) => html`<div class="banner">
  Has run for ${duration(live.age)}: ${live.model ?? "no model yet"}${live.target && html` → <span class="mono">${live.target}</span>`},
  ${" "}${live.state}, ${counted(live.tokens, "token")} so far.
  ${may && html` <${Act} label="Cancel" danger act=${() => ["POST", `/api/live/${live.id}/cancel`]} done=${again} />`}
</div>`;

/** How tokens are known; all but the first and the last are unsettled. */
const SOURCES = {
  reported: "the provider told all",
  partial: "the provider told some, and the rest is estimated; unsettled",
  estimated: "by the request and what came of the answer, as the provider told nothing; unsettled",
  observed: "what the provider had told when it broke off; unsettled",
  absorbed: "it broke off, and costs nothing; unsettled",
  none: "nobody knows them; unsettled",
  free: "no provider was asked, or those that were refused it",
};

/** Returns the URL of Config's form that explains such a request; by protocol, as the ledger has no path. */
const explained = ({ protocol, model, key }) => `/config?${new URLSearchParams({ explain: protocol, model, key })}`;

function Ended({ request, nameOf, may }) {
  const { usage = { in: {}, out: {} } } = request;
  const facts = [
    ["Time", html`<${When} ms=${request.time} />`],
    ["Outcome", html`<${Dot} state=${request.outcome}>${ending(request)}<//>`],
    ["Why", request.error && html`<span class="mono">${request.error.code}</span>: ${request.error.message}`],
    [
      "Key",
      request.key
        ? html`<${Link} to=${`/requests?key=${encodeURIComponent(request.key)}`}>${nameOf(request.key)}<//>`
        : "none",
    ],
    ["Group", request.group],
    [
      "Tags",
      request.tags &&
        Object.entries(request.tags)
          .map((tag) => tag.join("="))
          .join(", "),
    ],
    ["Model", request.model || "none was found"],
    ["Served by", html`<span class="mono">${request.target || "nobody was asked"}</span>`],
    ["Route", may && html`<${Link} to=${explained(request)}>Explain what would become of it now<//>`],
    ["Protocol", `${request.protocol}, ${request.operation}${request.streaming ? ", streamed" : ""}`],
    ["First byte", duration(request.firstByte)],
    ["Time taken", duration(request.duration)],
    ["Tokens in", tokensOf(usage.in)],
    ["Tokens out", tokensOf(usage.out)],
    ["Tokens are", html`${request.source}<span class="quiet">: ${SOURCES[request.source]}</span>`],
    ["Dropped", request.dropped && html`<span class="mono">${request.dropped.join(", ")}</span>`],
    ["Notices", request.notices?.join("; ")],
    ["Cost", `${money(request.cost)}${request.price ? ` at price ${request.price}` : ""}`],
  ];
  return html`<${TimeLine} request=${request} />
    <h2>Facts</h2>
    <dl class="facts">${facts.filter(([, value]) => value).map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>
    <details><summary>The row of the ledger</summary><${Code} text=${JSON.stringify(request, null, 2)} label="row of the ledger" /></details>`;
}

/** Request and response as `record` kept them. They are loaded on demand, because each access is written to the audit trail. */
function Kept({ id, may }) {
  const [asked, setAsked] = useState(false);
  const found = useApi(asked ? `/api/requests/${id}/recorded` : undefined);
  return html`<h2>Request and answer</h2>
    ${!may && html`<p class="quiet">Request and answer are shown to admins.</p>`}
    ${may && !asked && html`<p><button type="button" onClick=${() => setAsked(true)}>Show request and answer</button> <span class="quiet small">if the plugin record kept them; the audit trail notes who has looked</span></p>`}
    ${
      asked &&
      html`<${Ready} found=${found}>
        ${({ recorded }) => html`<${Sides} recorded=${recorded} />`}
      <//>`
    }`;
}

const Sides = ({ recorded: { request, answer, attempts, answerer, error } }) => html`<div class="sides">
  <section aria-label="As the client saw it"><h3>The client</h3>
    <${Message} message=${request} what="Request of the client" />
    ${answer && html`<${Message} message=${answer} what="Answer to the client" />`}
    ${error && html`<p><span class="bad">${error.code}</span> ${error.message}</p>`}
  </section>
  ${attempts.map(
    (attempt, at) => html`<section aria-label=${`Attempt ${at + 1}, as the provider saw it`}>
      <h3>${attempts.length > 1 ? `Attempt ${at + 1}: ` : ""}<span class="mono">${attempt.target}</span> <span class="quiet small">${attempt.protocol}</span></h3>
      ${attempt.error && html`<p class="bad mono small">${attempt.error}</p>`}
      <${Message} message=${attempt.request} what=${`Request of attempt ${at + 1}`} />
      ${attempt.answer ? html`<${Message} message=${attempt.answer} what=${`Answer of attempt ${at + 1}`} />` : html`<p class="quiet">${attempt.status === undefined ? "No answer came." : `${attempt.status}: what it answered was not kept.`}</p>`}
    </section>`,
  )}
  ${attempts.length === 0 && html`<section><h3>No provider was asked</h3>${answerer && html`<p>The plugin <span class="mono">${answerer}</span> answered.</p>`}</section>`}
</div>`;

const Message = ({
  message: { first, headers, body, encoding, bytes, cut },
  what,
}) => html`<p class="mono small">${first}</p>
  <details class="small"><summary>${headers.length === 1 ? "1 header" : `${headers.length} headers`}</summary><${Code} text=${headers.map((line) => line.join(": ")).join("\n")} label=${`${what}: headers`} /></details>
  ${bytes > 0 && html`<${Code} text=${encoding === "text" ? indented(body) : body} label=${what} />`}
  <p class="quiet small">${count(bytes)} bytes${cut ? ", of which the beginning was kept" : ""}${encoding === "base64" ? ", as base64" : ""}</p>`;

const tokensOf = (side) =>
  Object.entries(side ?? {})
    .filter(([, value]) => typeof value === "number")
    .map(([name, value]) => (name === "total" ? count(value) : `${count(value)} ${name}`))
    .join(", ");

function TimeLine({ request }) {
  const parts = stretches(request);
  const all = Math.max(request.duration, 1);
  const share = (ms) => `${Math.min(100, (ms / all) * 100)}%`;
  const columns = [
    { title: "Who", head: true, of: ({ who }) => html`<span class="mono">${who}</span>` },
    {
      title: "What",
      of: ({ what, why, kind }) =>
        html`<span class=${kind === "failed" ? "bad" : ""}>${what}</span>${why && html`<span class="sub">${why}</span>`}`,
    },
    { title: "From", number: true, of: ({ from }) => duration(from) },
    { title: "Took", number: true, of: ({ from, to }) => duration(to - from) },
    {
      title: "Time line",
      of: ({ from, to, kind }) =>
        html`<div class="line" aria-hidden="true"><span class=${kind} style=${{ left: `min(${share(from)}, calc(100% - 3px))`, width: share(to - from) }}></span></div>`,
    },
  ];
  return html`<h2>Time line</h2><${Table} caption="What the time went to" columns=${columns} rows=${parts} />`;
}
