/** The playground: a conversation with one model or with two side by side, in any protocol, with the raw events of the stream. */

import { eventsOf } from "../common/events.js";
import { count, dollars, duration, indented } from "../common/format.js";
import { Code, Copy, fetchJson, html, look, useEffect, useMemo, useRef, useState } from "../common/ui.js";
import { DIALECTS } from "../dialects/index.js";
import { answered, isKept, roundOf, turnsOf } from "./conversation.js";
import { KeyField } from "./key.js";

/** Limit of events that are shown: those of a long response would fill the page's memory. */
const SHOWN = 500;
/** Milliseconds between redraws while a response streams. */
const DRAWN = 60;

/** Milliseconds of streaming below which a speed is not meaningful. */
const MEASURABLE = 50;

const EMPTY = { state: "idle", text: "", reasoning: "", calls: [], events: [], headers: [], usage: {} };

export function Playground({ facts, view, apiKey, setKey }) {
  const talking = facts.models.filter(({ protocols }) => Object.keys(protocols).some((name) => DIALECTS[name]));
  const first = talking.find(({ id }) => id === view.a)?.id ?? talking[0]?.id;
  const second = talking.find(({ id }) => id === view.b)?.id;
  const names = Object.keys(DIALECTS).filter((name) => facts.protocols.some((each) => each.name === name));
  const protocol = names.includes(view.protocol) ? view.protocol : names[0];
  const [system, setSystem] = useState("");
  const [draft, setDraft] = useState("");
  const [images, setImages] = useState([]);
  const [toolText, setToolText] = useState("");
  const [limit, setLimit] = useState("");
  const [rounds, setRounds] = useState([]);
  // Rounds before this index are shown in the transcript only, later ones in the panes too.
  const [roundsBefore, setRoundsBefore] = useState(0);
  const ids = useRef(0);
  const tools = useMemo(() => toolsOf(toolText), [toolText]);
  if (talking.length === 0)
    return html`<h1>Playground</h1><p class="empty">No model is on that could be talked to.</p>`;
  const panes = Object.entries({ a: first, b: second }).filter(([, id]) => id !== undefined);
  const last = rounds.at(-1);
  const busy = Object.values(last?.answers ?? {}).some(({ state }) => state === "streaming");
  const ready = apiKey !== "" && draft.trim() !== "" && !tools.error && !busy;
  const send = (event) => {
    event.preventDefault();
    if (!ready) return;
    ids.current++;
    setRounds([...rounds, roundOf(ids.current, draft, images, Object.fromEntries(panes))]);
    setRoundsBefore(rounds.length);
    setDraft("");
    setImages([]);
  };
  const choose = (changes) => {
    setRoundsBefore(rounds.length);
    look(changes);
  };
  const request = { system, tools: tools.list, limit: Number(limit) || 0 };
  // Before the first question, the request is built from the draft.
  const planned = last ? rounds : [roundOf(0, draft, images, Object.fromEntries(panes))];
  return html`<h1>Playground</h1>
    <div class="bar">
      <${ModelChoice} label="Model" models=${talking} value=${first} choose=${(id) => choose({ a: id })} />
      <${ModelChoice} label="Beside it" models=${talking} value=${second ?? ""} choose=${(id) => choose({ b: id })} none />
      <label class="field">Protocol
        <select value=${protocol} onChange=${(event) => look({ protocol: event.currentTarget.value })}>
          ${names.map((name) => html`<option value=${name}>${name}</option>`)}
        </select>
      </label>
      <${KeyField} apiKey=${apiKey} setKey=${setKey} />
    </div>
    <${Options} system=${system} setSystem=${setSystem} tools=${tools} toolText=${toolText} setToolText=${setToolText} limit=${limit} setLimit=${setLimit} />
    ${rounds.map((round, at) => html`<${Round} key=${round.id} round=${round} inPanes=${Boolean(second) && at >= roundsBefore} />`)}
    <div class="panes">
      ${panes.map(
        ([column, id]) =>
          html`<${Pane}
            key=${`${column}/${id}`}
            model=${talking.find((each) => each.id === id)}
            protocol=${protocol}
            request=${{ ...request, turns: turnsOf(planned, column) }}
            round=${last?.id ?? 0}
            apiKey=${apiKey}
            alone=${!second}
            showsCost=${facts.serves.some((path) => path.startsWith("/v1/requests"))}
            ended=${(round, answer) => setRounds((all) => answered(all, round, column, answer))}
          />`,
      )}
    </div>
    <${Composer} draft=${draft} setDraft=${setDraft} images=${images} setImages=${setImages} send=${send} ready=${ready}>
      ${rounds.length > 0 && html`<button type="button" onClick=${() => setRounds([])}>New conversation</button>`}
      ${apiKey === "" && html`<span class="fair">Type a key first.</span>`}
    <//>`;
}

/** What is sent beside the conversation. */
const Options = ({ system, setSystem, tools, toolText, setToolText, limit, setLimit }) => html`<details>
    <summary>System, tools, longest answer</summary>
    <div class="bar">
      <label class="field wide">System<textarea value=${system} onInput=${(event) => setSystem(event.currentTarget.value)}></textarea></label>
      <label class="field wide">Tools, as a JSON list of <code>{name, description, parameters}</code>
        <textarea class="mono" spellcheck=${false} value=${toolText} aria-invalid=${tools.error ? "true" : undefined} onInput=${(event) => setToolText(event.currentTarget.value)}></textarea>
      </label>
      <label class="field">Longest answer, tokens<input type="number" min="1" inputmode="numeric" value=${limit} onInput=${(event) => setLimit(event.currentTarget.value)} /></label>
    </div>
    ${tools.error && html`<p class="bad" role="alert">${tools.error} <button type="button" class="small" onClick=${() => setToolText(EXAMPLE)}>Put an example</button></p>`}
    ${toolText === "" && html`<button type="button" class="small" onClick=${() => setToolText(EXAMPLE)}>An example of a tool</button>`}
  </details>`;

/** The field for the next message and its pictures. @param children further buttons */
const Composer = ({
  draft,
  setDraft,
  images,
  setImages,
  send,
  ready,
  children,
}) => html`<form onSubmit=${send} onDragOver=${(event) => event.preventDefault()} onDrop=${(event) => dropped(event, images, setImages)}>
    <label class="field">Message; drop a picture here, Ctrl+Enter sends
      <textarea
        value=${draft}
        onInput=${(event) => setDraft(event.currentTarget.value)}
        onKeyDown=${(event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && send(event)}
      ></textarea>
    </label>
    <div class="bar">
      <button class="main" disabled=${!ready}>Send</button>
      <label class="field">Picture<input type="file" accept="image/*" multiple onChange=${(event) => taken(event.currentTarget.files, images, setImages)} /></label>
      ${images.length > 0 && html`<button type="button" class="small" onClick=${() => setImages([])}>Without the ${images.length} picture(s)</button>`}
      ${children}
    </div>
  </form>`;

/** A question and each model's answer to it. @param inPanes whether the answers are shown in the panes below */
const Round = ({ round: { text, images, answers }, inPanes }) => html`<div class="turn">
    <strong class="small">You</strong>
    <div class="verbatim">${text}</div>
    ${images.length > 0 && html`<span class="quiet small">${images.length} picture(s)</span>`}
  </div>
  ${
    !inPanes &&
    html`<div class="panes">
      ${Object.entries(answers)
        .filter(([, { state }]) => state !== "streaming")
        .map(([column, answer]) => html`<${Answered} key=${column} answer=${answer} />`)}
    </div>`
  }`;

const Answered = ({ answer }) => html`<div class="turn">
  <strong class="small mono">${answer.model}</strong>
  ${answer.text && html`<div class="verbatim">${answer.text}</div>`}
  ${answer.calls?.length > 0 && html`<span class="quiet small">calls ${answer.calls.map(({ name }) => name).join(", ")}</span>`}
  ${answer.error && html`<span class="bad small">${answer.error}</span>`}
  ${!isKept(answer) && html`<span class="quiet small">Not sent on with what you ask next: ${answer.state === "whole" ? "no text" : answer.state}.</span>`}
</div>`;

const ModelChoice = ({ label, models, value, choose, none }) => html`<label class="field">${label}
  <select value=${value} onChange=${(event) => choose(event.currentTarget.value)}>
    ${none && html`<option value="">none</option>`}
    ${models.map(({ id }) => html`<option value=${id}>${id}</option>`)}
  </select>
</label>`;

const EXAMPLE = JSON.stringify(
  [
    {
      name: "weather",
      description: "The weather in a city",
      parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
    },
  ],
  null,
  2,
);

function toolsOf(text) {
  if (text.trim() === "") return { list: [] };
  try {
    const list = JSON.parse(text);
    if (!Array.isArray(list) || list.some((tool) => typeof tool?.name !== "string"))
      return { list: [], error: "Tools are a list of objects with a name." };
    return { list };
  } catch (error) {
    return { list: [], error: `The tools are no JSON: ${error.message}` };
  }
}

function dropped(event, images, set) {
  event.preventDefault();
  taken(event.dataTransfer.files, images, set);
}

async function taken(files, images, set) {
  const pictures = [...files].filter(({ type }) => type.startsWith("image/"));
  const urls = await Promise.all(
    pictures.map(
      (file) =>
        new Promise((read) => {
          const reader = new FileReader();
          reader.onload = () => read(reader.result);
          reader.readAsDataURL(file);
        }),
    ),
  );
  set([...images, ...urls]);
}

/** One model's pane. Each new round sends a request. */
function Pane({ model, protocol, request, round, apiKey, ended, alone, showsCost }) {
  const [answer, set] = useState(EMPTY);
  const [sent, setSent] = useState();
  const stop = useRef(() => {});
  // Rounds from before this model was chosen are not sent to it.
  const before = useRef(round);
  const reach = model.protocols[protocol];
  const dialect = DIALECTS[protocol];
  const body = dialect.body({ ...request, model: model.id, thinks: model.can.includes("reasoning") });
  useEffect(() => () => stop.current(), []);
  useEffect(() => {
    if (round === before.current) return;
    before.current = round;
    stop.current();
    if (round === 0) {
      set(EMPTY);
      setSent(undefined);
      return;
    }
    const control = new AbortController();
    stop.current = () => control.abort();
    setSent({ dialect, body });
    // A response of a former conversation is no longer drawn.
    const show = (answer) => before.current === round && set(answer);
    run({ dialect, model, body, apiKey, control, showsCost, show, ended: (answer) => ended(round, answer) });
  }, [round]);
  const curl = curlOf(sent?.dialect ?? dialect, model.id, sent?.body ?? body);
  return html`<section class="pane" aria-label=${model.id}>
    <h2 class="mono">${model.id}</h2>
    <p class="quiet small">${protocol}${REACHES[reach] ?? ": not reached by it"}</p>
    ${
      answer.state !== "idle" &&
      html`<${Bar} answer=${answer} model=${model} />
        ${answer.headers.length > 0 && html`<ul class="plain mono small" aria-label=${`Headers of ${model.id}`}>${answer.headers.map(([name, value]) => html`<li key=${name}>${name}: ${value}</li>`)}</ul>`}
        ${
          answer.reasoning !== "" &&
          html`<details open=${answer.text === ""}><summary>Reasoning</summary><div class="verbatim reasoning">${answer.reasoning}</div></details>`
        }
        ${(alone ? answer.state === "streaming" : true) && html`<div class="verbatim" aria-live="polite" aria-busy=${String(answer.state === "streaming")}>${answer.text}</div>`}
        ${answer.calls.map(
          (call) =>
            html`<div class="card" key=${call.at}><p class="title">calls</p><strong class="mono">${call.name}</strong><pre class="mono">${indented(call.json)}</pre></div>`,
        )}
        ${answer.error && html`<p class="bad" role="alert">${answer.error}</p>`}
        ${answer.state === "streaming" && html`<button type="button" class="danger" onClick=${() => stop.current()}>Stop</button>`}`
    }
    <details>
      <summary>Events (${answer.events.length}${answer.events.length >= SHOWN ? ", the first" : ""})</summary>
      <div class="events" tabindex="0" role="region" aria-label=${`Events of ${model.id}`}>
        ${answer.events.map(({ at, raw }) => html`<div><time>${Math.round(at)} ms</time><span>${raw}</span></div>`)}
      </div>
    </details>
    <details><summary>As curl</summary><${Code} text=${curl} label=${`curl for ${model.id}`} /></details>
    ${answer.text !== "" && answer.state !== "streaming" && html`<${Copy} text=${answer.text} label="Copy the answer" />`}
  </section>`;
}

/** How a protocol reaches a model's targets. */
const REACHES = {
  native: ", its own",
  mixed: ", its own or translated, depending on the target",
  translated: ", translated",
};

/** Quotes a text for a shell. */
const single = (text) => `'${text.replaceAll("'", "'\\''")}'`;

function curlOf(dialect, model, body) {
  const headers = Object.entries({ ...dialect.headers("$GATEWAY_KEY"), "content-type": "application/json" });
  return [
    `curl -N ${single(location.origin + dialect.path(model))}`,
    ...headers.map(([name, value]) => `  -H "${name}: ${value}"`),
    `  -d ${single(JSON.stringify(body))}`,
  ].join(" \\\n");
}

/** First token, speed, tokens and cost. */
function Bar({ answer, model }) {
  const { first, ended, began, usage } = answer;
  const time = (ended ?? performance.now()) - began;
  const speed =
    usage.out && first !== undefined && time - first > MEASURABLE ? usage.out / ((time - first) / 1000) : undefined;
  const price = model.price;
  const about =
    price && usage.in !== undefined
      ? (usage.in * (price.input ?? 0) + (usage.out ?? 0) * (price.output ?? 0)) / 1e6
      : undefined;
  const state = { streaming: "streams", stopped: "stopped", failed: "failed" }[answer.state] ?? "whole";
  const paid =
    answer.cost !== undefined
      ? dollars(answer.cost)
      : about === undefined
        ? "cost not known"
        : `about ${dollars(about)}`;
  const parts = [
    state,
    `first ${duration(first)}`,
    `${duration(time)} in all`,
    ...(speed === undefined ? [] : [`${speed.toFixed(1)} tokens/s`]),
    `${count(usage.in)} in, ${count(usage.out)} out`,
    paid,
  ];
  return html`<p class="small quiet" role="status">${parts.join(" · ")}</p>`;
}

/** Sends a request; calls `show` as the response grows, and `ended` with its result. Never throws. */
async function run({ dialect, model, body, apiKey, control, showsCost, show, ended }) {
  const began = performance.now();
  const answer = { ...EMPTY, state: "streaming", began, events: [], calls: [], usage: {} };
  let drawn = 0;
  const draw = (now = false) => {
    if (!now && performance.now() - drawn < DRAWN) return;
    drawn = performance.now();
    show({ ...answer, events: [...answer.events], calls: [...answer.calls] });
  };
  draw(true);
  try {
    const response = await fetch(dialect.path(model.id), {
      method: "POST",
      headers: { ...dialect.headers(apiKey), "content-type": "application/json" },
      body: JSON.stringify(body),
      signal: control.signal,
    });
    answer.headers = [...response.headers].filter(([name]) => name.startsWith("gateway-") || name === "x-request-id");
    const type = response.headers.get("content-type") ?? "";
    if (type.includes("json")) throw new Error(errorText(await response.json()));
    // What is no stream comes from a proxy in front.
    if (!type.includes("event-stream")) throw new Error(`The answer is no stream: ${response.status} ${type}`);
    for await (const event of eventsOf(response)) {
      const at = performance.now() - began;
      if (answer.events.length < SHOWN) answer.events.push({ at, raw: event.raw });
      if (event.data === "[DONE]" || event.data === "") continue;
      for (const piece of dialect.read(JSON.parse(event.data))) take(answer, piece, at);
      draw();
    }
    answer.state = answer.error ? "failed" : "whole";
  } catch (error) {
    answer.state = control.signal.aborted ? "stopped" : "failed";
    if (!control.signal.aborted) answer.error = error.message;
  }
  answer.ended = performance.now();
  draw(true);
  const { state, text, calls, error } = answer;
  ended({ state, text, calls, error });
  // A stopped request is settled later, so its cost remains an estimate here.
  const cost = showsCost && answer.state === "whole" ? await costOf(answer.headers, apiKey) : undefined;
  if (cost !== undefined) show((now) => ({ ...now, cost }));
}

/** Returns the cost from the ledger, where the gateway serves it. */
async function costOf(headers, apiKey) {
  const id = headers.find(([name]) => name === "x-request-id")?.[1];
  if (id === undefined) return undefined;
  try {
    const found = await fetchJson(`/v1/requests/${id}`, { headers: { authorization: `Bearer ${apiKey}` } });
    return typeof found.cost === "number" ? found.cost / 1e9 : undefined;
  } catch {
    return undefined;
  }
}

const errorText = (json) => json?.error?.message ?? JSON.stringify(json);

function take(answer, piece, at) {
  if (piece.text || piece.reasoning || piece.call) answer.first ??= at;
  if (piece.text) answer.text += piece.text;
  if (piece.reasoning) answer.reasoning += piece.reasoning;
  if (piece.error) answer.error = piece.error;
  if (piece.usage)
    for (const [side, tokens] of Object.entries(piece.usage)) if (tokens !== undefined) answer.usage[side] = tokens;
  if (!piece.call) return;
  const known = answer.calls.find((call) => call.at === piece.call.at);
  if (known) known.json += piece.call.json;
  else answer.calls.push({ at: piece.call.at, name: piece.call.name ?? "", json: piece.call.json });
}
