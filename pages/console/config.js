/** The loaded gateway.yaml, what a reload would change, and an explanation of a request. */

import { count, duration } from "../common/format.js";
import { html, Link, look, Ready, useEffect, useRef, useState, When } from "../common/ui.js";
import { change } from "./api.js";
import { CONFIG, GENERATIONS } from "./asks.js";
import { Explain } from "./explain.js";
import { Act, Table, useApi } from "./parts.js";

export function Config({ view, may }) {
  const found = useApi(CONFIG);
  const generations = useApi(GENERATIONS, 5000);
  return html`<h1>Config</h1>
    <${Ready} found=${found}>
      ${(config) => html`<p>
          <span class="mono">${config.file}</span>, loaded <${When} ms=${config.loaded} />, generation ${config.generation}.
        </p>
        ${config.reload?.problem && html`<div class="failure" role="alert"><strong>The last reload changed nothing:</strong><pre>${config.reload.problem}</pre></div>`}
        ${config.restart?.length > 0 && html`<p class="banner">Waits for a restart: ${config.restart.join(", ")}</p>`}
        ${config.warnings?.length > 0 && html`<div class="banner"><ul>${config.warnings.map((line) => html`<li>${line}</li>`)}</ul></div>`}
        <${Difference} may=${may} again=${found.again} />
        ${may && html`<h2>Explain</h2><${Explain} paths=${config.paths} view=${view} />`}
        <h2>Paths and their chains</h2>
        <${Paths} config=${config} />
        <h2>The file</h2>
        <${Text} text=${config.text} line=${Number(view.line)} />`}
    <//>
    <h2>Generations</h2>
    <${Ready} found=${generations}>${({ generations: all }) => html`<${Generations} all=${all} />`}<//>`;
}

function Difference({ may, again }) {
  const [shown, show] = useState();
  const [error, fail] = useState();
  const compare = async () => {
    fail(undefined);
    try {
      show(await change("GET", "/api/config/diff"));
    } catch (thrown) {
      show(undefined);
      fail(thrown);
    }
  };
  return html`<p class="bar">
      <button type="button" class="small" onClick=${compare}>Compare with the file on disk</button>
      ${
        may &&
        html`<${Act} label="Reload" act=${() => ["POST", "/api/reload"]} done=${(answer) => {
          show(answer);
          again();
        }} />`
      }
    </p>
    ${error && html`<div class="failure" role="alert"><strong>The file on disk cannot be loaded:</strong><pre>${error.message}</pre></div>`}
    ${shown && html`<${Changes} changes=${shown.changes} restart=${shown.restart ?? []} />`}`;
}

function Changes({ changes, restart }) {
  const columns = [
    { title: "What", head: true, of: ({ path }) => html`<span class="mono">${path}</span>` },
    { title: "Before", of: ({ before }) => html`<span class="mono">${text(before)}</span>` },
    { title: "After", of: ({ after }) => html`<span class="mono">${text(after)}</span>` },
  ];
  return html`<${Table} caption="Changes" columns=${columns} rows=${changes} empty="Nothing differs." />
    ${restart.length > 0 && html`<p class="fair">Only a restart changes ${restart.join(", ")}.</p>`}`;
}

const text = (value) => (value === undefined ? "–" : typeof value === "string" ? value : JSON.stringify(value));

/** Each path with the plugins of its chain, in order. */
function Paths({ config: { paths, chains } }) {
  const chainOf = ({ use }) => chains[use] ?? [];
  const columns = [
    { title: "Path", head: true, of: ({ path }) => html`<span class="mono">${path}</span>` },
    {
      title: "Is",
      of: ({ protocol, serve, pass, strict }) =>
        html`${protocol ?? (serve ? `answered by ${serve}` : `passes to ${typeof pass === "string" ? pass : pass?.provider}`)}${strict && html` <span class="chip">strict</span>`}`,
    },
    {
      title: "Chain",
      of: (path) =>
        html`<ol class="chips" aria-label="Plugins in order">${chainOf(path).map((name, at) => html`<li class="chip">${at > 0 && html`<span aria-hidden="true">→ </span>`}${name}</li>`)}</ol>`,
    },
  ];
  return html`<${Table} caption="Paths" columns=${columns} rows=${paths} keyOf=${({ path }) => path} />`;
}

/** The file with line numbers; `?line=12` marks one, and scrolls to it. */
function Text({ text: whole, line }) {
  const place = useRef();
  useEffect(() => place.current.querySelector(".marked")?.scrollIntoView({ block: "nearest" }), [line]);
  return html`<div class="code">
    <pre ref=${place} class="numbered" tabindex="0" role="region" aria-label="gateway.yaml, secrets starred"><code>${whole
      .trimEnd()
      .split("\n")
      .map(
        (each, at) =>
          html`<span key=${at} class=${at + 1 === line ? "marked" : ""} onClick=${() => look({ line: at + 1 })}>${each}${"\n"}</span>`,
      )}</code></pre>
  </div>`;
}

/** Exchanges that are listed for each old generation, and the labels of their kinds. */
const NAMED = 5;
const kindOf = { request: "request", stream: "stream", socket: "WebSocket" };

function Generations({ all }) {
  // Each worker has its own generation of the same number.
  const several = new Set(all.map(({ worker }) => worker)).size > 1;
  const columns = [
    {
      title: "Generation",
      head: true,
      of: ({ number, serving }) => html`${number}${serving && html` <span class="chip">serves</span>`}`,
    },
    ...(several ? [{ title: "Worker", number: true, of: ({ worker }) => worker }] : []),
    { title: "Since", of: ({ since }) => html`<${When} ms=${since} />` },
    {
      title: "Kept alive by",
      of: ({ serving, exchanges = [] }) =>
        serving
          ? "new requests"
          : html`${count(exchanges.length)}: ${exchanges
              .slice(0, NAMED)
              .map(
                ({ id, model, kind, name, key, address, age }, at) =>
                  html`${at > 0 && ", "}<${Link} to=${`/requests/${id}`}>${kindOf[kind]} of ${name ?? key ?? address}<//>, ${model ?? "no model"}, for ${duration(age)}`,
              )}`,
    },
    { title: "Broken off", of: ({ ends }) => (ends ? html`<${When} ms=${ends} />` : "–") },
  ];
  return html`<${Table} caption="Generations" columns=${columns} rows=${all} keyOf=${({ number, worker }) => `${worker}/${number}`} />`;
}
