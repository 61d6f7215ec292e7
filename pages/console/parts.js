/** Components that the console's pages share. */

import { duration, keyNames } from "../common/format.js";
import { html, look, More, PART, useEffect, useJson, useMemo, useState } from "../common/ui.js";
import { change, get } from "./api.js";
import { KEYS, SPANS } from "./asks.js";

/** Loads JSON of the admin API, and reloads it every `every` milliseconds. */
export const useApi = (path, every = 0) => useJson(path, { every, load: get });

/** Returns a function from a key's id to its name. */
export function useKeyNames() {
  const { value } = useApi(KEYS);
  return useMemo(() => {
    const names = keyNames(value?.keys ?? []);
    return (id) => names.get(id) ?? id ?? "–";
  }, [value]);
}

/** Returns the query that filters requests by a value, or by its absence. */
export const only = (field, value) => (value ? `${field}=${encodeURIComponent(value)}` : `without=${field}`);

export const SpanChoice = ({ span }) => html`<label class="field">Window
  <select value=${span} onChange=${(event) => look({ since: event.currentTarget.value, before: "" })}>
    ${Object.entries(SPANS).map(([name, title]) => html`<option value=${name}>${title}</option>`)}
  </select>
</label>`;

/** A choice that is stored in the URL. */
export const Choice = ({ label, name, value, options }) => html`<label class="field">${label}
  <select value=${value ?? ""} onChange=${(event) => look({ [name]: event.currentTarget.value, before: "" })}>
    ${options.map(([option, title]) => html`<option value=${option}>${title}</option>`)}
  </select>
</label>`;

/** A text field that is stored in the URL when it changes. */
export const Typed = ({
  label,
  name,
  value,
  type = "text",
  step,
  wide = false,
}) => html`<label class=${`field ${wide ? "wide" : ""}`}>${label}
  <input type=${type} min=${type === "number" ? 0 : undefined} step=${step} value=${value ?? ""} onChange=${(event) => look({ [name]: event.currentTarget.value.trim(), before: "" })} />
</label>`;

/** Buttons to older rows and back. @param before where the shown ones begin @param next where the older ones do */
export const Paging = ({ before, next }) => html`<p class="bar">
  ${before && html`<button type="button" onClick=${() => look({ before: "" }, {})}>Newest</button>`}
  ${next && html`<button type="button" onClick=${() => look({ before: next }, {})}>Older</button>`}
</p>`;

/** Rows that fill a window; further ones are drawn once the visible part of the page has loaded. */
const SEEN = 30;
/** Milliseconds between checks. */
const LOOK = 50;

/** Calls `act` once no part of the page is loading. @returns a function that cancels it */
function whenReady(act) {
  const look = () => (document.querySelector("[aria-busy=true]") ? wait() : act());
  let timer;
  const wait = () => {
    timer = setTimeout(look, LOOK);
  };
  wait();
  return () => clearTimeout(timer);
}

/**
 * A table. Columns are `{ title, of, number, head }`. On a phone each row is shown as a card.
 * @param caption the content, for screen readers
 */
export function Table({ caption, columns, rows, empty = "Nothing in that time.", keyOf = (_, at) => at }) {
  const [most, draw] = useState(SEEN);
  useEffect(() => whenReady(() => draw(PART)), []);
  const drawn = Math.min(most, rows.length);
  return rows.length === 0
    ? html`<p class="empty">${empty}</p>`
    : html`<div class="scroll">
        <table class="stack rows">
          <caption class="hidden">${caption}</caption>
          <thead>
            <tr>${columns.map(({ title, number }) => html`<th scope="col" class=${number ? "number" : ""}>${title || html`<span class="hidden">Act</span>`}</th>`)}</tr>
          </thead>
          <tbody>
            ${rows.slice(0, drawn).map(
              (row, at) => html`<tr key=${keyOf(row, at)}>
                ${columns.map(({ title, of, number, head }) =>
                  head
                    ? html`<th scope="row">${of(row)}</th>`
                    : html`<td class=${number ? "number" : ""} data-title=${title}>${of(row)}</td>`,
                )}
              </tr>`,
            )}
          </tbody>
        </table>
      </div>
      ${most >= PART && html`<${More} drawn=${drawn} all=${rows.length} draw=${draw} />`}`;
}

/** Formats p50 and p95 of a distribution. */
export const spread = (found, write = duration) =>
  found?.p50 === undefined ? "–" : `${write(found.p50)} / ${write(found.p95)}`;

/**
 * A button for a change: asks for confirmation where `sure` is set, and shows errors.
 * @param act returns `[method, path, body]`
 */
export function Act({ label, what, act, done, sure, danger, disabled }) {
  const [state, set] = useState({});
  const run = async () => {
    if (sure && !confirm(sure)) return;
    set({ busy: true });
    try {
      const answer = await change(...act());
      set({});
      done?.(answer);
    } catch (error) {
      set({ error });
    }
  };
  return html`<button type="button" class=${`small ${danger ? "danger" : ""}`} disabled=${disabled || state.busy} aria-label=${`${label} ${what ?? ""}`.trim()} onClick=${run}>${label}</button>
    ${state.error && html`<span class="bad small" role="alert"> ${state.error.message}</span>`}`;
}
