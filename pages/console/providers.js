/** Each provider with the health of its targets and the state of its credentials. */

import { count, duration, percent } from "../common/format.js";
import { Dot, html, Ready, useState } from "../common/ui.js";
import { MODELS, PROVIDERS } from "./asks.js";
import { Act, Table, useApi } from "./parts.js";
import { Patch } from "./patch.js";
import { withUnset } from "./yaml.js";

const REFRESH = 3000;
const STATES = { closed: "in use", open: "suspended", "half-open": "being tried", off: "switched off" };
const CREDENTIALS = { ok: "ok", waiting: "rate limited", refused: "not accepted" };

/** Returns the credentials with which a target cannot be used now. */
const unwell = ({ credentials = [] }) => credentials.filter(({ state }) => state !== "ok");
const until = (moment) => (moment && moment > Date.now() ? ` for ${duration(moment - Date.now())}` : "");

export function Providers({ may }) {
  const found = useApi(PROVIDERS, REFRESH);
  const models = useApi(MODELS);
  return html`<h1>Providers</h1>
    <${Ready} found=${found}>
      ${({ providers }) => providers.map((provider) => html`<${Provider} key=${provider.name} provider=${provider} models=${models.value?.models ?? []} may=${may} again=${found.again} />`)}
    <//>
    <h2>Models and who serves them</h2>
    <${Ready} found=${models}>${({ models: all }) => html`<${Models} all=${all} />`}<//>`;
}

const named = ({ provider, model }) => `${provider}:${model}`;
/** Returns the provider of a target as written in the file. */
const providerOf = (target) => (target.to ?? target).split(":", 1)[0];

/** Returns the lines that remove a provider from all models with another target, and the models without one. */
function without(name, models) {
  const served = models.filter(
    // The file that has just been loaded may lack a model that a worker still serves.
    ({ targets, written }) => written.targets && targets.some(({ provider }) => provider === name),
  );
  const left = served.map(({ id, written: { targets } }) => ({
    id,
    targets: targets.filter((target) => providerOf(target) !== name),
  }));
  const others = left.filter(({ targets }) => targets.length > 0);
  return {
    tree: { models: Object.fromEntries(others.map(({ id, targets }) => [id, { targets }])) },
    others: others.length,
    alone: left.filter(({ targets }) => targets.length === 0).map(({ id }) => id),
  };
}

function Models({ all }) {
  const [open, show] = useState();
  const chosen = all.find(({ id }) => id === open);
  const columns = [
    { title: "Model", head: true, of: ({ id }) => html`<span class="mono">${id}</span>` },
    {
      title: "Targets and weights",
      of: ({ targets }) =>
        targets.length === 0
          ? html`<${Dot} state="off">off, as its providers are<//>`
          : targets.map(
              (target) =>
                html`<span class="chip"><span class="mono">${named(target)}</span> × ${target.weight}</span> `,
            ),
    },
    { title: "Shared", of: ({ balance }) => SHARED[balance] ?? balance },
    {
      title: "Then",
      of: ({ fallback }) => (fallback.length > 0 ? html`<span class="mono">${fallback.join(", ")}</span>` : "–"),
    },
    {
      title: "",
      of: ({ id }) =>
        html`<button type="button" class="small" aria-expanded=${String(open === id)} aria-label=${`Change ${id} in gateway.yaml`} onClick=${() => show(open === id ? undefined : id)}>Change</button>`,
    },
  ];
  return html`<${Table} caption="Models and who serves them" columns=${columns} rows=${all} keyOf=${({ id }) => id} empty="No model is on." />
    ${chosen && html`<${Patch} what=${chosen.id} tree=${{ models: { [chosen.id]: patchOf(chosen) } }} now />`}`;
}

/** Returns a provider's settings in the file, and the defaults in force as comments. */
const patchOfProvider = ({ name, concurrency = 20, health, written }) => ({
  providers: { [name]: withUnset({ ...written, health: withUnset(written.health ?? {}, health) }, { concurrency }) },
});

/**
 * Returns the settings of a model that are usually changed, as written in the file; weights also where they are omitted there.
 */
const patchOf = ({ balance, written: { targets = [], ...rest } }) => ({
  balance,
  targets: targets.map((target) => (typeof target === "string" ? { to: target, weight: 1 } : { weight: 1, ...target })),
  ...rest,
});

const SHARED = { weighted: "by weight", latency: "the fastest", cheapest: "the cheapest first" };

function Provider({ provider, models, may, again }) {
  const { name, url, speaks, off, switched_off: switched, credentials = [], targets = [], concurrency } = provider;
  const [patch, show] = useState();
  const choose = (what) => () => show(patch === what ? undefined : what);
  const out = without(name, models);
  const columns = [
    {
      title: "Model there",
      head: true,
      of: ({ model, serves = [] }) =>
        html`<span class="mono">${model}</span><span class="sub">serves ${serves.join(", ") || "nothing"}</span>`,
    },
    {
      title: "State",
      of: (target) => html`<${Dot} state=${target.state}>${STATES[target.state]}${until(target.until)}<//>`,
    },
    { title: "Running", number: true, of: (target) => count(target.in_flight) },
    { title: "First byte", number: true, of: (target) => duration(target.first_byte) },
    {
      title: "Failed of late",
      number: true,
      of: ({ recent }) =>
        recent?.requests > 0 ? `${percent(recent.failed / recent.requests)} of ${count(recent.requests)}` : "–",
    },
    ...(targets.some((target) => unwell(target).length > 0)
      ? [
          {
            title: "Credentials there",
            of: (target) => html`${unwell(target).map((each) => html`<${Credential} credential=${each} />`)}`,
          },
        ]
      : []),
    ...(may && !off
      ? [
          {
            title: "",
            of: ({ model, switched_off: gone, ...how }) =>
              html`<${Switches} name=${name} model=${model} switched=${gone} resting=${isResting(how)} again=${again} />`,
          },
        ]
      : []),
  ];
  return html`<section class="card provider" aria-labelledby=${`provider-${name}`}>
    <h2 id=${`provider-${name}`}>${name}</h2>
    ${off && html`<p><${Dot} state="off">off: ${off}<//></p>`}
    ${switched && html`<p><${Dot} state="off">switched off<//> This gateway sends nothing there until it is switched on or the gateway starts anew. Other gateways with the same store still do.</p>`}
    <dl class="facts">
      <dt>Address</dt><dd class="mono">${url}</dd>
      <dt>Speaks</dt><dd>${speaks.join(", ")}</dd>
      ${concurrency > 0 && html`<dt>At a time</dt><dd>${count(concurrency)}</dd>`}
      <dt>Credentials</dt><dd>${credentials.length === 0 ? (off ? "none: it is off" : "none is sent") : credentials.map((each) => html`<${Credential} credential=${each} />`)}</dd>
    </dl>
    ${targets.length > 0 && html`<${Table} caption=${`Targets of ${name}`} columns=${columns} rows=${targets} keyOf=${({ model }) => model} />`}
    <p class="bar">
      ${may && !off && html`<${Switches} name=${name} switched=${switched} resting=${targets.some(isResting) || credentials.some(isNotOk)} again=${again} />`}
      <button type="button" class="small" aria-expanded=${String(patch === "change")} onClick=${choose("change")}>Change ${name} in gateway.yaml</button>
      ${out.others + out.alone.length > 0 && html`<button type="button" class="small" aria-expanded=${String(patch === "out")} onClick=${choose("out")}>Take ${name} out of its models</button>`}
    </p>
    ${patch === "out" && out.others > 0 && html`<${Patch} what=${`without ${name}`} tree=${out.tree} />`}
    ${patch === "out" && out.alone.length > 0 && html`<p class="fair">Nobody else serves <span class="mono">${out.alone.join(", ")}</span>: give them another target, or take them out of the file.</p>`}
    ${patch === "change" && html`<${Patch} what=${name} tree=${patchOfProvider(provider)} now />`}
  </section>`;
}

const isNotOk = ({ state }) => state !== "ok";
const isResting = ({ state, credentials = [] }) => state === "open" || credentials.some(isNotOk);

/** Controls for a running gateway, of a provider or of one of its targets. */
function Switches({ name, model, switched, resting, again }) {
  const what = model === undefined ? name : `${name}:${model}`;
  const act = (word) => () => ["POST", `/api/providers/${encodeURIComponent(name)}/${word}`, { model }];
  return html`${resting && html`<${Act} label="Try now" what=${what} act=${act("try")} done=${again} /> `}
    ${
      switched
        ? html`<${Act} label="Switch on" what=${what} act=${act("on")} done=${again} />`
        : html`<${Act} label="Switch off" what=${what} act=${act("off")} done=${again} sure=${`Switch ${what} off? This gateway sends nothing new there until it is switched on or the gateway starts anew. Other gateways with the same store still do: switch it off at each, or remove it from gateway.yaml.`} />`
    }`;
}

const Credential = ({ credential: { label, state, until: moment } }) =>
  html`<${Dot} state=${state}><span class="mono">${label}</span> ${CREDENTIALS[state] ?? state}${until(moment)}<//> `;
