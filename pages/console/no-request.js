/** Shown in place of an empty list: how to send a first request, or that no request matches. */

import { fill } from "../common/snippets.js";
import { Code, html, Link, Ready } from "../common/ui.js";
import { CLIENTS, EVER, MODELS } from "./asks.js";
import { addressOf } from "./issued.js";
import { useApi } from "./parts.js";

/** @param children the text where there have been requests before */
export function NoRequest({ children }) {
  const ever = useApi(EVER);
  return html`<${Ready} found=${ever}>
    ${({ requests }) => (requests.length === 0 ? html`<${First} />` : html`<p class="empty">${children}</p>`)}
  <//>`;
}

/** A request that works as pasted, except for the key. */
function First() {
  const clientSettings = useApi(CLIENTS);
  const models = useApi(MODELS);
  return html`<${Ready} found=${clientSettings}>
    ${({ clients, listen }) => html`<${Ready} found=${models}>
      ${({ models: all }) => html`<div class="banner" role="status"><${Pasted} clients=${clients} listen=${listen} models=${all} /></div>`}
    <//>`}
  <//>`;
}

function Pasted({ clients, listen, models }) {
  const curls = clients.filter(({ name, snippets }) => name === "curl" && snippets.length > 0);
  const pairs = models.flatMap((model) => curls.map((client) => ({ model, client })));
  const found = pairs.find(({ model, client }) => model.protocols[client.protocol] !== undefined);
  if (!found) return html`<p>No request yet, and no model is on that could be asked.</p>`;
  const values = { address: addressOf(listen), key: "YOUR_KEY", model: found.model.id };
  return html`<p><strong>No request yet.</strong> Paste this, with a key in it (<${Link} to="/keys">Keys<//> makes one):</p>
    <${Code} text=${fill(found.client.snippets[0].text, values).trimEnd()} label="a first request" />`;
}
