/** Pages whose scripts are loaded when they are first shown, or a while after the start. */

import { Failure, html, useLayoutEffect, useState } from "./ui.js";

/** Milliseconds after which the pages that are not shown are loaded too. */
const LATER = 2000;

const AWAY = new Error("This page could not be read. The gateway may be away, or another version by now.");

/**
 * @param loads functions that load a page's component, by name
 * @returns `load` loads one, `loadRest` loads all after a while, `Page` shows the one of that name
 */
export function lazily(loads) {
  const there = new Map();
  const load = async (name) => {
    if (loads[name] && !there.has(name)) there.set(name, await loads[name]());
  };
  const loadRest = () => setTimeout(() => Object.keys(loads).map((name) => load(name).catch(() => {})), LATER);
  function Page({ name, ...rest }) {
    const [error, fail] = useState();
    const [, again] = useState(0);
    const Shown = there.get(name);
    useLayoutEffect(() => {
      if (Shown) return;
      load(name).then(
        () => again((turn) => turn + 1),
        () => fail(AWAY),
      );
    }, [name]);
    if (Shown) return html`<${Shown} ...${rest} />`;
    return error
      ? html`<${Failure} error=${error} again=${() => location.reload()} />`
      : html`<div class="skeleton" aria-busy="true"><p class="quiet">Loading…</p></div>`;
  }
  return { load, loadRest, Page };
}
