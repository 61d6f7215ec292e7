/** One model: what it can do and costs, who serves it, what is lost on the way to it, and how clients reach it. */

import { duration, percent, price, tokens } from "../common/format.js";
import { fits } from "../common/pattern.js";
import { Snippets } from "../common/snippets.js";
import { Card, Copy, Dot, html, Link } from "../common/ui.js";
import { Abilities, Health, Protocols } from "./catalogue.js";
import { KeyField } from "./key.js";

const TARGET_STATES = {
  closed: "well",
  open: "suspended",
  "half-open": "being tried",
  off: "switched off",
  waiting: "rate limited",
  refused: "credential refused",
};

/** Returns the model with an alias that is the name, or fits it: the longest one, as for requests. */
function byAlias(models, name) {
  const all = models.flatMap((model) => model.aliases.map((alias) => ({ model, alias })));
  const length = ({ alias }) => (alias === name ? Number.POSITIVE_INFINITY : alias.length);
  const [found] = all.filter(({ alias }) => fits(alias, name)).sort((one, other) => length(other) - length(one));
  return found?.model;
}

export function ModelPage({ facts, id, view, apiKey, setKey }) {
  const model = facts.models.find((each) => each.id === id) ?? byAlias(facts.models, id);
  if (!model)
    return html`<h1>No model "${id}"</h1>
      <p>It is switched off, not listed, or only for some keys. <${Link} to="/">All models<//></p>`;
  return html`<p class="small"><${Link} to="/">Models<//> / <span class="mono">${model.id}</span></p>
    <h1>${model.name}</h1>
    <p class="quiet">
      ${model.name !== model.id && html`<code>${model.id}</code> `}<${Copy} text=${model.id} what="the id" /> ${model.description && html`· ${model.description}`}
    </p>
    <p><${Link} to=${`/play?a=${encodeURIComponent(model.id)}`}>Try it in the playground<//></p>
    <div class="cards">
      <${Card} title="Context" value=${tokens(model.context)} under="tokens that fit in" />
      <${Card} title="Longest answer" value=${tokens(model.output)} under="tokens" />
      <${Card} title="Price in" value=${price(model.price?.input)} under=${`cached ${price(model.price?.cached ?? model.price?.input)}, per million tokens`} />
      <${Card} title="Price out" value=${price(model.price?.output)} under="per million tokens" />
    </div>
    <div class="split">
      <section aria-labelledby="facts">
        <h2 id="facts">Facts</h2>
        <dl class="facts">
          <dt>Can</dt><dd><${Abilities} can=${model.can} /></dd>
          <dt>Protocols</dt><dd><${Protocols} protocols=${model.protocols} /></dd>
          <dt>Health</dt><dd><${Health} model=${model} /></dd>
          ${model.aliases.length > 0 && html`<dt>Other names</dt><dd>${model.aliases.map((alias) => html`<code>${alias}</code> `)}</dd>`}
          ${model.fallback.length > 0 && html`<dt>Falls back to</dt><dd>${model.fallback.map((name) => html`<${Link} to=${`/models/${name}`}>${name}<//> `)}</dd>`}
        </dl>
      </section>
      <section aria-labelledby="clients">
        <h2 id="clients">Use it</h2>
        <${Snippets} clients=${facts.clients} model=${model} address=${location.origin} apiKey=${apiKey} chosen=${view.client} links>
          <${KeyField} apiKey=${apiKey} setKey=${setKey} />
        <//>
      </section>
    </div>
    <${Served} targets=${model.targets} />
    <${PriceTable} model=${model} />
    <${Losses} model=${model} protocols=${facts.protocols} />`;
}

const Served = ({ targets }) => html`<section aria-labelledby="served">
  <h2 id="served">Served by</h2>
  <table class="stack">
    <thead><tr><th scope="col">Provider</th><th scope="col">Its name there</th><th scope="col" class="number">Share</th><th scope="col">Health</th><th scope="col" class="number">First byte</th></tr></thead>
    <tbody>
      ${targets.map(
        (target) => html`<tr>
          <th scope="row">${target.provider}</th>
          <td data-title="Its name there"><code>${target.model}</code></td>
          <td class="number" data-title="Share">${target.share === undefined ? "by the moment" : percent(target.share)}</td>
          <td data-title="Health"><${Dot} state=${target.state}>${TARGET_STATES[target.state]}<//></td>
          <td class="number" data-title="First byte">${duration(target.firstByte)}</td>
        </tr>`,
      )}
    </tbody>
  </table>
</section>`;

const KINDS = {
  input: "in",
  cached: "in, cached",
  cache_write: "in, written to the cache",
  cache_write_1h: "in, written to the cache for an hour",
  output: "out",
  reasoning: "out, reasoning",
  input_audio: "in, audio",
  cached_audio: "in, audio, cached",
  output_audio: "out, audio",
  input_image: "in, images",
  cached_image: "in, images, cached",
  output_image: "out, images",
  input_video: "in, video",
};

/** Rates, those above some number of tokens, and those of service tiers, as rows with the name of the figure they are of. */
function priceRows(own, prefix = "", figure = undefined) {
  const row = (name, what) => (own[name] === undefined ? [] : [[`${prefix}${what}`, price(own[name]), figure ?? name]]);
  const rows = Object.entries(KINDS).flatMap(([name, what]) => row(name, what));
  for (const step of own.above ?? [])
    rows.push(...priceRows(step, `${prefix}above ${tokens(step.tokens)} in: `, figure ?? "above"));
  for (const tier of ["batch", "flex", "priority", "fast"])
    if (own[tier]) rows.push(...priceRows(own[tier], `${tier}: `, tier));
  return [...rows, ...row("request", "each request"), ...row("web_search", "each search of the web")];
}

function PriceTable({ model }) {
  const priced = model.targets.filter((target) => target.price);
  const priceKey = ({ price, priceSources }) => JSON.stringify([price, priceSources]);
  const same = priced.every((target) => priceKey(target) === priceKey(priced[0]));
  const lists = same ? priced.slice(0, 1) : priced;
  return html`<section aria-labelledby="prices">
    <h2 id="prices">Prices</h2>
    ${lists.length === 0 && html`<p class="quiet">Nobody knows what it costs.</p>`}
    ${lists.map(
      (target) => html`<div>
        ${!same && html`<h3>${target.provider}</h3>`}
        <table>
          <thead><tr><th scope="col">Tokens</th><th scope="col" class="number">USD per million</th><th scope="col">From</th></tr></thead>
          <tbody>
            ${priceRows(target.price).map(
              ([what, usd, figure]) =>
                html`<tr><td>${what}</td><td class="number">${usd}</td><td class="quiet small">${target.priceSources[figure]}</td></tr>`,
            )}
          </tbody>
        </table>
      </div>`,
    )}
  </section>`;
}

/** What requests of other protocols lose on their way to a provider of this model. */
function Losses({ model, protocols }) {
  const translated = Object.values(model.protocols).some((reach) => reach !== "native");
  const spoken = new Set(model.targets.flatMap(({ speaks }) => speaks));
  const written = protocols.filter(({ name, losses }) => losses && spoken.has(name));
  if (!translated || written.length === 0) return null;
  return html`<section aria-labelledby="losses">
    <h2 id="losses">What translation leaves out</h2>
    <p class="quiet">
      Requests in a protocol that the provider does not speak are translated. What it cannot say is named in
      the header <code>gateway-dropped</code>, or refused with a 400 where leaving it out would change the answer.
    </p>
    ${written.map(
      ({ name, losses }) => html`<details>
        <summary>Into <code>${name}</code>: ${losses.filter((loss) => loss.support === "dropped").length} dropped, ${losses.filter((loss) => loss.support === "refused").length} refused</summary>
        <table>
          <thead><tr><th scope="col">Asked for</th><th scope="col">What becomes of it</th></tr></thead>
          <tbody>
            ${losses.map((loss) => html`<tr><td>${loss.what}</td><td>${loss.support}${loss.note && html` <span class="quiet">(${loss.note})</span>`}</td></tr>`)}
          </tbody>
        </table>
      </details>`,
    )}
  </section>`;
}
