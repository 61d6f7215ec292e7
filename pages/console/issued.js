/** A new key, shown only once, with the settings that each client needs to use it. */

import { fits } from "../common/pattern.js";
import { Snippets } from "../common/snippets.js";
import { Code, html, Ready, useState } from "../common/ui.js";
import { CLIENTS, MODELS } from "./asks.js";
import { useApi } from "./parts.js";

export const Issued = ({ issued: { key, secret }, view, close }) => html`<div class="banner" role="status">
    <p><strong>The key of ${key.name}, shown this once:</strong></p>
    <${Code} text=${secret} label=${`the key of ${key.name}`} />
    <button type="button" onClick=${close}>I have it</button>
  </div>
  <section class="card" aria-labelledby="clients">
    <h2 id="clients">Use it</h2>
    <${Settings} issued=${key} secret=${secret} view=${view} />
  </section>`;

function Settings({ issued, secret, view }) {
  const clientSettings = useApi(CLIENTS);
  const models = useApi(MODELS);
  return html`<${Ready} found=${clientSettings}>
    ${({ clients, listen }) => html`<${Ready} found=${models}>
      ${({ models: all }) => html`<${Filled} clients=${clients} listen=${listen} models=${all.filter(({ id }) => mayUse(issued, id))} secret=${secret} view=${view} />`}
    <//>`}
  <//>`;
}

function Filled({ clients, listen, models, secret, view }) {
  const [address, setAddress] = useState(addressOf(listen));
  const [id, choose] = useState(models[0]?.id);
  const model = models.find((each) => each.id === id);
  if (!model) return html`<p class="quiet">No model is on that it may use.</p>`;
  return html`<${Snippets} clients=${clients} model=${model} address=${address} apiKey=${secret} chosen=${view.client}>
    <label class="field">Model
      <select value=${id} onChange=${(event) => choose(event.currentTarget.value)}>
        ${models.map((each) => html`<option value=${each.id}>${each.id}</option>`)}
      </select>
    </label>
    <label class="field wide">Address, as clients reach it
      <input type="url" spellcheck=${false} value=${address} onInput=${(event) => setAddress(event.currentTarget.value.trim().replace(/\/+$/, ""))} />
    </label>
  <//>`;
}

/** Reports whether a key may use a model. */
const mayUse = ({ models }, id) => !models || models.some((each) => fits(each, id));

/** Returns where the gateway listens; for all interfaces the host name of the console's URL. */
export function addressOf({ host, port }, here = location.hostname) {
  const name = /^(?:0\.0\.0\.0|::|0:0:0:0:0:0:0:0)$/.test(host) ? here : host;
  return `http://${name.includes(":") && !name.startsWith("[") ? `[${name}]` : name}:${port}`;
}
