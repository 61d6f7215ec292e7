/** Components that all pages share. */

import { html, useEffect, useLayoutEffect, useRef, useState } from "../lib/preact.js";
import { fetched, taken } from "./first.js";
import { count, moment, offset, utc } from "./format.js";
import { keep, kept } from "./storage.js";

export {
  html,
  render,
  useCallback,
  useEffect,
  useErrorBoundary,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "../lib/preact.js";

/** Returns the query of the URL as an object: the URL holds the whole view, so that a link shows the same. */
const view = () => Object.fromEntries(new URLSearchParams(location.search));

const listeners = new Set();
const announce = () => {
  for (const listener of listeners) listener();
};
addEventListener("popstate", announce);

/** Navigates to another page of this app without reloading. */
export function go(address, { replace = false } = {}) {
  if (address === location.pathname + location.search) return;
  history[replace ? "replaceState" : "pushState"](null, "", address);
  announce();
  if (!replace) scrollTo(0, 0);
}

/** Changes parameters of the URL; empty values remove them. */
export function look(changes, options = { replace: true }) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes))
    if (value === undefined || value === null || value === "" || value === false) query.delete(name);
    else query.set(name, String(value));
  const text = query.toString();
  go(location.pathname + (text === "" ? "" : `?${text}`), options);
}

/** Returns the path and the view, and rerenders when they change. */
export function useAddress() {
  const [, again] = useState(0);
  useEffect(() => {
    const listener = () => again((n) => n + 1);
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, []);
  return { path: location.pathname, view: view() };
}

/** Links to pages of this app navigate without reloading. */
document.addEventListener("click", (event) => {
  const link = event.target instanceof Element ? event.target.closest("a[href]") : null;
  if (!link || event.defaultPrevented || event.button !== 0) return;
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  if (link.target || link.origin !== location.origin || link.hasAttribute("download")) return;
  if (!link.dataset.page) return;
  event.preventDefault();
  go(link.pathname + link.search);
  document.querySelector("main")?.focus({ preventScroll: true });
});

/** A link to another page of this app. */
export const Link = ({ to, children, ...rest }) => html`<a href=${to} data-page="1" ...${rest}>${children}</a>`;

/**
 * Loads JSON from a URL; `state` is loading, ready, stale or failed. `load` may pass a partial value to its second argument,
 * which shows it and returns whether the component is still mounted. A value with `lasting` is not reloaded periodically.
 */
export function useJson(address, { every = 0, load = (path) => fetchJson(path) } = {}) {
  const [found, set] = useState({ state: "loading" });
  const [turn, again] = useState(0);
  // Before the first paint, so that a prefetched response is shown at once.
  useLayoutEffect(() => {
    if (address === undefined) return undefined;
    let gone = false;
    let timer;
    const show = (value) => {
      if (!gone) set({ state: "ready", value, at: Date.now(), address });
      return !gone;
    };
    const read = async () => {
      let value;
      try {
        value = await load(address, show);
        show(value);
      } catch (error) {
        // A value of another address is not what was asked for.
        const isStale = (before) => before.value && before.address === address;
        if (!gone) set((before) => ({ ...before, state: isStale(before) ? "stale" : "failed", error }));
      }
      if (!gone && every > 0 && !value?.lasting) timer = setTimeout(read, every);
    };
    read();
    return () => {
      gone = true;
      clearTimeout(timer);
    };
  }, [address, every, turn]);
  return { ...found, again: () => again((n) => n + 1) };
}

/** Fetches JSON; undefined where the response has none. @throws Error with the server's message */
export async function fetchJson(address, options) {
  const { response, text } = await ((options === undefined && taken(address)) || fetched(address, options));
  if (response.status === 204) return undefined;
  let json;
  try {
    json = JSON.parse(text);
  } catch {
    json = undefined;
  }
  if (!response.ok || json === undefined) {
    const message = json?.error?.message ?? (typeof json?.error === "string" ? json.error : undefined);
    throw Object.assign(new Error(message ?? `The gateway answered ${response.status}.`), {
      status: response.status,
      json,
    });
  }
  return json;
}

/** A button that copies a text and confirms it. */
export function Copy({ text, label = "Copy", what = "" }) {
  const [done, set] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      copyByHand(text);
    }
    set(true);
    setTimeout(() => set(false), 1500);
  };
  return html`<button type="button" class="small" onClick=${copy} aria-label=${`${label} ${what}`.trim()}>
    <span aria-live="polite">${done ? "Copied" : label}</span>
  </button>`;
}

/** Copies with a selection, where the clipboard API is denied, or missing as on plain http. */
function copyByHand(text) {
  const focused = document.activeElement;
  const area = document.body.appendChild(document.createElement("textarea"));
  area.value = text;
  area.select();
  document.execCommand("copy");
  area.remove();
  focused?.focus();
}

/** A block of code with a button to copy it. */
export const Code = ({ text, label }) => html`<div class="code">
  <${Copy} text=${text} what=${label} />
  <pre tabindex="0" role="region" aria-label=${label}><code>${text}</code></pre>
</div>`;

/** A figure with its title. */
export const Card = ({ title, value, under, state = "" }) => html`<div class="card">
  <p class="title">${title}</p>
  <p class=${`value ${state}`}>${value}</p>
  ${under && html`<p class="under">${under}</p>`}
</div>`;

/** A coloured dot with its meaning in words. */
export const Dot = ({ state, children }) => html`<span class=${`dot ${state}`}>${children}</span>`;

/** A moment in the reader's time zone; the tooltip has the zone's offset and the same moment in UTC. */
export const When = ({ ms }) =>
  html`<time datetime=${utc(ms)} title=${`${offset(ms)} here, ${utc(ms)}`}>${moment(ms)}</time>`;

/** Rows that are drawn at first, and that each press of a button adds. */
export const PART = 200;

/** A button under a table with more rows than are drawn. @param draw sets the number of drawn rows */
export const More = ({ drawn, all, draw }) =>
  drawn < all &&
  html`<p class="bar">
    <button type="button" onClick=${() => draw(drawn + PART)}>Show more</button>
    <span class="quiet small" role="status">${count(drawn)} of ${count(all)}</span>
  </p>`;

/** An error, with a hint and a button to try again. */
export const Failure = ({ error, again }) => html`<div class="failure" role="alert">
  <strong>${error?.message ?? "Something went wrong."}</strong>
  ${error?.json?.hint && html`<p>${error.json.hint}</p>`}
  ${again && html`<button type="button" onClick=${again}>Try again</button>`}
</div>`;

/** Shows a loaded value, or that it is loading, or that it failed. */
export function Ready({ found, children }) {
  return html`<div class="ready">${readied(found, children)}</div>`;
}

function readied(found, children) {
  if (found.state === "failed") return html`<${Failure} error=${found.error} again=${found.again} />`;
  if (found.value === undefined)
    return html`<div class="skeleton" aria-busy="true"><p class="quiet">Loading…</p></div>`;
  const stale =
    found.state === "stale"
      ? html`<p class="stale" role="status">
          Not refreshed: ${found.error.message} Shown is what was there ${moment(found.at)}.
        </p>`
      : null;
  return html`<div class="ready">${stale}</div>
    <div class="ready">${children(found.value)}</div>`;
}

/** A choice of light, dark or the system's theme. */
function Theme() {
  const [theme, set] = useState(kept("localStorage", "theme") ?? "system");
  const choose = (event) => {
    const { value } = event.currentTarget;
    set(value);
    keep("localStorage", "theme", value === "system" ? null : value);
    if (value === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = value;
    dispatchEvent(new Event("theme"));
  };
  return html`<select class="small" aria-label="Theme" value=${theme} onChange=${choose}>
    <option value="system">System</option>
    <option value="light">Light</option>
    <option value="dark">Dark</option>
  </select>`;
}

/** The header of every page. @param pages address, name and key of each */
export function Head({ title, home, pages, path, children }) {
  return html`<a class="skip" href="#main">To the content</a>
    <header class="top">
      <${Link} to=${home} class="brand">${title}<//>
      <nav aria-label="Pages">
        ${pages.map(
          ({ to, name, exact }) =>
            html`<${Link}
              to=${to}
              aria-current=${(exact ? path === to : path === to || path.startsWith(`${to}/`)) ? "page" : undefined}
              >${name}<//
            >`,
        )}
      </nav>
      <div class="right">${children}<${Theme} /></div>
    </header>`;
}

/**
 * Handles keyboard shortcuts; `?` lists them.
 * @param keys `[key, what, act]`; a key of two letters is pressed one after the other
 */
export function useKeys(keys) {
  const now = useRef(keys);
  now.current = keys;
  useEffect(() => {
    let first = "";
    const press = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (/^(?:INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
      const typed = first + event.key;
      const found = now.current.find(([key]) => key === typed) ?? now.current.find(([key]) => key === event.key);
      first = now.current.some(([key]) => key.length === 2 && key[0] === event.key) ? event.key : "";
      if (!found) return;
      event.preventDefault();
      found[2]();
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, []);
}

/** Lists the keyboard shortcuts in a dialog. */
export function Keys({ keys, open, close }) {
  const dialog = useRef();
  useEffect(() => {
    if (open) dialog.current?.showModal();
    else dialog.current?.close();
  }, [open]);
  return html`<dialog ref=${dialog} onClose=${close} aria-label="Keys">
    <h2>Keys</h2>
    <dl class="keys">
      ${keys.map(([key, what]) => html`<dt><kbd>${[...key].join(" ")}</kbd></dt><dd>${what}</dd>`)}
    </dl>
    <form method="dialog"><button>Close</button></form>
  </dialog>`;
}

/** Moves the focus by some rows, for `j` and `k`: links or buttons of a list. */
export function walk(selector, step) {
  const rows = [...document.querySelectorAll(selector)];
  const at = rows.indexOf(document.activeElement);
  rows[Math.min(rows.length - 1, Math.max(0, at + step))]?.focus();
}
