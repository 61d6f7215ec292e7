/** Explains a request without asking a provider, like the verb `explain`. */

import { counted, dollars, indented } from "../common/format.js";
import { Code, Dot, Failure, html, look, useEffect, useState } from "../common/ui.js";
import { change } from "./api.js";
import { Table } from "./parts.js";

export function Explain({ paths, view }) {
  const [state, set] = useState({});
  const asked = paths.filter(({ protocol }) => protocol).map(({ path }) => path);
  const explain = async ({ path, model, key, body }) => {
    set({ busy: true });
    try {
      const found = await change("POST", "/api/explain", {
        path,
        ...(model && { model }),
        ...(key && { key }),
        ...(body && { body }),
      });
      set({ found });
      return found.key;
    } catch (error) {
      set({ error });
      return undefined;
    }
  };
  const send = async (event) => {
    event.preventDefault();
    const { path, model, key, body } = Object.fromEntries(new FormData(event.currentTarget));
    const name = await explain({ path, model, key, body });
    // The typed text may be the key itself, which must not be in a URL; nor a body, which may contain anything.
    look({ path, model, key: name });
  };
  // A link to an explanation runs it; a link from a request has a protocol instead of a path.
  useEffect(() => {
    const shown = async () => {
      const path = view.path || (view.explain && (await pathOf(paths, view.explain, view.model)));
      if (!path) return;
      if (!view.path) look({ explain: "", path });
      await explain({ ...view, path });
    };
    shown();
  }, []);
  return html`<form onSubmit=${send} class="bar">
      <label class="field">Path
        <input name="path" list="explained" required defaultValue=${view.path || asked[0]} class="mono" />
        <datalist id="explained">${asked.map((path) => html`<option value=${path}></option>`)}</datalist>
      </label>
      <label class="field">Model<input name="model" placeholder="the first one" defaultValue=${view.model} /></label>
      <label class="field">Key, by name<input name="key" placeholder="one without limits" defaultValue=${view.key} /></label>
      <label class="field wide">Body, JSON<textarea name="body" class="mono" spellcheck=${false} placeholder="a short one of the protocol"></textarea></label>
      <button disabled=${state.busy}>${state.busy ? "Thinks…" : "Explain"}</button>
    </form>
    ${state.error && html`<${Failure} error=${state.error} />`}
    ${state.found && html`<${Explanation} found=${state.found} />`}`;
}

/** Returns a path of a protocol, with the model where the protocol has it in the path; undefined where none is known. */
async function pathOf(paths, protocol, model) {
  const path = paths.find((each) => each.protocol === protocol)?.path;
  if (!path?.includes("*")) return path;
  const { DIALECTS } = await import("../dialects/index.js");
  return model && DIALECTS[protocol]?.path(model).split("?")[0];
}

function Explanation({ found }) {
  const { refused, steps = [], targets = [], off = [], maximum, answer = [] } = found;
  const columns = [
    { title: "Phase", of: ({ phase }) => phase },
    { title: "Plugin", head: true, of: ({ plugin }) => html`<span class="mono">${plugin}</span>` },
    {
      title: "Did",
      of: ({ did }) =>
        did.length === 0 ? html`<span class="quiet">nothing</span>` : did.map((line) => html`<div>${line}</div>`),
    },
  ];
  const asked = [
    { title: "Target", head: true, of: ({ target }) => html`<span class="mono">${target}</span>` },
    { title: "Why there", of: ({ why = [] }) => why.join("; ") },
    {
      title: "Asked as",
      of: ({ request, protocol }) =>
        request
          ? html`<span class="mono">${request.method} ${request.url}</span><span class="sub">${protocol}, credential ${request.credential ?? "none"}</span>`
          : protocol,
    },
    {
      title: "Left out",
      of: ({ dropped = [], notices = [], refused: why }) =>
        html`${[...dropped, ...notices].join(", ") || "nothing"}${why && html`<span class="bad"> ${why.message}</span>`}`,
    },
  ];
  return html`<div class="card" role="region" aria-label="Explanation">
    ${refused && html`<p class="bad"><${Dot} state="rejected">refused: ${refused.status} ${refused.code}${refused.by ? ` by ${refused.by}` : ""}<//> ${refused.message}</p>`}
    ${found.chain && html`<p>Chain ${found.chain.name}: <span class="mono">${found.chain.plugins.join(" → ")}</span>; ${found.protocol}, ${found.operation}; model ${found.model?.id ?? "none"}${found.caller ? `; key ${found.caller.name}` : ""}.</p>`}
    ${steps.length > 0 && html`<${Table} caption="What each plugin does" columns=${columns} rows=${steps} />`}
    ${targets.length > 0 && html`<h3>Targets, in order</h3><${Table} caption="Targets, in order" columns=${asked} rows=${targets} />`}
    ${targets.map(
      ({ target, request }) =>
        request?.body &&
        html`<details class="small"><summary>What ${target} would get</summary><${Code} text=${indented(request.body)} label=${`body for ${target}`} /></details>`,
    )}
    ${off.map(({ target, off: why }) => html`<p class="quiet"><span class="mono">${target}</span> is off: ${why}</p>`)}
    ${answer.length > 0 && html`<p class="small">The answer passes ${answer.join(" → ")}.</p>`}
    ${maximum && html`<p>At most ${counted(maximum.tokens, "token")}${maximum.usd === null ? "" : `, ${dollars(maximum.usd)}`}.</p>`}
  </div>`;
}
