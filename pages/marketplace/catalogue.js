/** The list of models, with a search and filters that are stored in the URL. */

import { counted, duration, price, tokens } from "../common/format.js";
import { Copy, Dot, html, Link, look, More, PART, useEffect, useRef, useState } from "../common/ui.js";

/** Labels of a model's states. */
const STATES = { ok: "well", degraded: "in part", tried: "being tried", down: "down" };

/** Sort orders by their name in the URL; `of` returns the sort key. */
const ORDERS = {
  name: { title: "Name", of: (model) => model.name.toLowerCase() },
  context: { title: "Context", of: (model) => -(model.context ?? 0) },
  in: { title: "Price in", of: (model) => model.price?.input ?? Number.POSITIVE_INFINITY },
  out: { title: "Price out", of: (model) => model.price?.output ?? Number.POSITIVE_INFINITY },
  first: { title: "First byte", of: (model) => model.firstByte ?? Number.POSITIVE_INFINITY },
};

const CONTEXTS = ["32000", "128000", "200000", "1000000"];
const PRICES = ["0", "0.5", "1", "3", "10"];

/** Returns the models that match a view, in its order. */
function shown(models, { q = "", can = "", context, price: most, protocol, sort }) {
  const words = q.toLowerCase().split(/\s+/).filter(Boolean);
  const able = can.split(",").filter(Boolean);
  const fits = (model) => {
    const text = [
      model.id,
      model.name,
      model.description ?? "",
      ...model.aliases,
      ...model.targets.map((target) => target.model),
    ]
      .join(" ")
      .toLowerCase();
    return (
      words.every((word) => text.includes(word)) &&
      able.every((ability) => model.can.includes(ability)) &&
      (!context || (model.context ?? 0) >= Number(context)) &&
      (!most || (model.price?.input ?? Number.POSITIVE_INFINITY) <= Number(most)) &&
      (!protocol || model.protocols[protocol] !== undefined)
    );
  };
  const found = models.filter(fits);
  const order = ORDERS[sort];
  if (!order) return found;
  return found.sort((a, b) => (order.of(a) < order.of(b) ? -1 : order.of(a) > order.of(b) ? 1 : 0));
}

export function Catalogue({ facts: { models, protocols }, view }) {
  const search = useRef();
  useEffect(() => {
    if (search.current && search.current !== document.activeElement) search.current.value = view.q ?? "";
  }, [view.q]);
  const found = shown(models, view);
  const abilities = [...new Set(models.flatMap(({ can }) => can))].sort();
  const able = (view.can ?? "").split(",").filter(Boolean);
  const toggle = (ability) =>
    look({ can: (able.includes(ability) ? able.filter((each) => each !== ability) : [...able, ability]).join(",") });
  const choose = (name) => (event) => look({ [name]: event.currentTarget.value });
  const filtered = Object.keys(view).some((name) => name !== "sort");
  return html`<h1>Models</h1>
    <p class="quiet">One address and one key for all of them: <code>${location.origin}</code> <${Copy} text=${location.origin} what="the address" /></p>
    <search class="bar">
      <label class="field wide">Search<input type="search" ref=${search} placeholder="name, vendor's name, alias ( / )" onInput=${choose("q")} /></label>
      <label class="field">Context at least
        <select value=${view.context ?? ""} onChange=${choose("context")}>
          <option value="">any</option>
          ${CONTEXTS.map((size) => html`<option value=${size}>${tokens(Number(size))}</option>`)}
        </select>
      </label>
      <label class="field">Price in at most
        <select value=${view.price ?? ""} onChange=${choose("price")}>
          <option value="">any</option>
          ${PRICES.map((usd) => html`<option value=${usd}>${price(Number(usd))}</option>`)}
        </select>
      </label>
      <label class="field">Protocol
        <select value=${view.protocol ?? ""} onChange=${choose("protocol")}>
          <option value="">any</option>
          ${protocols.map(({ name }) => html`<option value=${name}>${name}</option>`)}
        </select>
      </label>
      <label class="field">Sort by
        <select value=${view.sort ?? ""} onChange=${choose("sort")}>
          <option value="">as listed</option>
          ${Object.entries(ORDERS).map(([name, { title }]) => html`<option value=${name}>${title}</option>`)}
        </select>
      </label>
    </search>
    <div class="chips" role="group" aria-label="What it can do">
      ${abilities.map(
        (ability) =>
          html`<button type="button" class="chip" aria-pressed=${String(able.includes(ability))} onClick=${() => toggle(ability)}>
            ${ability}
          </button>`,
      )}
    </div>
    <p class="quiet small" role="status" aria-live="polite">
      ${found.length === models.length ? counted(models.length, "model") : `${found.length} of ${counted(models.length, "model")}`}
      ${filtered && html` · <${Link} to="/">all of them<//>`}
    </p>
    ${found.length === 0 ? html`<p class="empty">No model fits. Take a filter away.</p>` : html`<${ModelTable} models=${found} />`}`;
}

function ModelTable({ models }) {
  const [most, draw] = useState(PART);
  const drawn = Math.min(most, models.length);
  return html`<table class="models stack">
  <caption class="hidden">Models; prices in US dollars per million tokens</caption>
  <thead>
    <tr>
      <th scope="col">Model</th>
      <th scope="col">Can</th>
      <th scope="col" class="number">Context</th>
      <th scope="col" class="number">In / cached / out, per million</th>
      <th scope="col">Protocols</th>
      <th scope="col">Health</th>
    </tr>
  </thead>
  <tbody>
    ${models.slice(0, drawn).map((model) => html`<${Row} key=${model.id} model=${model} />`)}
  </tbody>
</table>
<${More} drawn=${drawn} all=${models.length} draw=${draw} />`;
}

const Row = ({ model }) => html`<tr>
  <th scope="row">
    <span class="name"><${Link} to=${`/models/${model.id}`}>${model.name}<//></span>
    <span class=${model.name === model.id ? "slug same" : "slug"}>${model.name !== model.id && html`<code>${model.id}</code> `}<${Copy} text=${model.id} what=${`the id ${model.id}`} /></span>
    ${model.description && html`<span class="quiet small">${model.description}</span>`}
  </th>
  <td><${Abilities} can=${model.can} /></td>
  <td class="number" data-title="Context">${tokens(model.context)}</td>
  <td class="number" data-title="In / cached / out, per million"><${Prices} price=${model.price} /></td>
  <td class="protocols"><${Protocols} protocols=${model.protocols} /></td>
  <td data-title="Health"><${Health} model=${model} /></td>
</tr>`;

export const Abilities = ({ can }) =>
  can.length === 0
    ? html`<span class="quiet small">text</span>`
    : html`<ul class="chips" aria-label="Can">
        ${can.map((ability) => html`<li class="chip">${ability}</li>`)}
      </ul>`;

const Prices = ({ price: own }) =>
  own === undefined
    ? html`<span class="quiet">not known</span>`
    : html`${price(own.input)} / ${price(own.cached ?? own.input)} / ${price(own.output)}`;

/** Native protocols are marked by more than a colour. */
export const Protocols = ({ protocols }) => html`<ul class="chips" aria-label="Protocols">
  ${Object.entries(protocols).map(
    ([name, reach]) =>
      html`<li class=${`chip ${reach}`} title=${reach === "native" ? "its provider's own" : "translated"}>
        ${name}${reach === "native" && html` <span aria-hidden="true">●</span><span class="hidden"> (native)</span>`}
      </li>`,
  )}
</ul>`;

/** The state is that of the model's own targets. */
export const Health = ({ model }) =>
  html`<${Dot} state=${model.fallbackAnswers ? "degraded" : model.state}>${STATES[model.state]}<//> ${model.fallbackAnswers && html`<span class="sub quiet small whole">its fallback answers</span>`}${model.firstByte !== undefined && html`<span class="sub quiet small whole">first byte ${duration(model.firstByte)}</span>`}`;
