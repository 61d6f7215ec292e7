/** How clients reach a model through the gateway: filled-in settings of each, to copy. */

import { importLink } from "./import-link.js";
import { Code, html, look, useState } from "./ui.js";

/** Replaces the placeholders for address, key and model in a client's text. */
export const fill = (text, values) => text.replaceAll(/\{\{(address|key|model)\}\}/g, (_, name) => values[name]);

/** Quotes a text for a shell, unless it is a plain word. */
const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/** Returns the shell commands that start a client. */
function started(client, values) {
  const lines = [
    ...client.unset.map((name) => `unset ${name}`),
    ...Object.entries(client.env).map(([name, value]) => `export ${name}=${quoted(fill(value, values))}`),
  ];
  if (client.command)
    lines.push([client.command, ...client.arguments.map((each) => quoted(fill(each, values)))].join(" "));
  return lines.join("\n");
}

/**
 * The settings of each client, with the gateway's address, the model and the key.
 * @param apiKey empty: a placeholder is shown instead
 * @param chosen the client that the URL names
 * @param links whether a program on this machine can take them over: the reader has typed the key
 * @param children further fields beside the choice
 */
export function Snippets({ clients, model, address, apiKey, chosen, links, children }) {
  const fitting = clients.filter(({ protocol }) => model.protocols[protocol] !== undefined);
  const names = [...new Set(fitting.map(({ name }) => name))];
  const name = names.includes(chosen) ? chosen : names[0];
  const variants = fitting.filter((each) => each.name === name);
  const [wanted, choose] = useState("");
  if (fitting.length === 0)
    return html`<div class="bar">${children}</div><p class="quiet">No client is known that speaks its protocols.</p>`;
  const client =
    variants.find(({ protocol }) => protocol === wanted) ??
    variants.find(({ protocol }) => model.protocols[protocol] === "native") ??
    variants[0];
  const values = { address, key: apiKey || "YOUR_KEY", model: model.id };
  const shell = started(client, values);
  return html`<div class="bar">
      <label class="field">Client
        <select value=${name} onChange=${(event) => look({ client: event.currentTarget.value })}>
          ${names.map((each) => html`<option value=${each}>${each}</option>`)}
        </select>
      </label>
      ${
        variants.length > 1 &&
        html`<label class="field">Protocol
          <select value=${client.protocol} onChange=${(event) => choose(event.currentTarget.value)}>
            ${variants.map(({ protocol }) => html`<option value=${protocol}>${protocol}${model.protocols[protocol] === "native" ? " (native)" : ""}</option>`)}
          </select>
        </label>`
      }
      ${children}
    </div>
    ${links && client.link && html`<${ImportLink} client=${client} values=${{ address, key: apiKey, model: model.id }} />`}
    ${shell !== "" && html`<${Code} text=${shell} label=${`${client.name} in a shell`} />`}
    ${client.snippets.map(
      ({ language, install, text }) => html`${client.snippets.length > 1 && html`<h3>${language}</h3>`}
        ${install && html`<${Code} text=${install} label=${`install for ${language}`} />`}
        <${Code} text=${fill(text, values).trimEnd()} label=${`${client.name}, ${language}`} />`,
    )}
    ${client.files.map(
      ({ path, text }) => html`<h3>${client.command ? "Or in" : "In"} <code>${path}</code></h3>
        <${Code} text=${fill(text, values).trimEnd()} label=${path} />`,
    )}
    ${client.notes.map((note) => html`<p class="quiet small">${note}</p>`)}`;
}

function ImportLink({ client, values }) {
  const url = importLink(client, values);
  return html`<p>
    ${
      url === undefined
        ? html`<span class="quiet">Type your key for a link that sets up ${client.name}.</span>`
        : html`<a href=${url}>Set up ${client.name}</a> <span class="quiet">with this address${values.key === "" ? "; you type the key there" : " and your key"}</span>`
    }
  </p>`;
}
