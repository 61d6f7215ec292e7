/** Pages whose scripts are loaded when they are first shown, or a while after the start. */

import { Failure, html, render, useErrorBoundary, useLayoutEffect, useState } from "./ui.js";

/** Milliseconds after which the pages that are not shown are loaded too. */
const LATER = 2000;

const AWAY = new Error("This page could not be read. The gateway may be away, or another version by now.");

/** Shows a page, or why it cannot be shown: an error in one page leaves the others, and the way to them. */
function Guarded({ page: Shown, ...rest }) {
  const [error] = useErrorBoundary((thrown) => reportError(thrown));
  if (!error) return html`<${Shown} ...${rest} />`;
  const told = new Error(`This page cannot be shown: ${error.message}`);
  return html`<${Failure} error=${told} again=${() => location.reload()} />`;
}

/**
 * @param loads functions that load a page's component, by name
 * @returns `show` shows an app whose first page has that name, and loads the others after a while; `Page` shows the one of its name
 */
export function lazily(loads) {
  const there = new Map();
  const load = async (name) => {
    if (loads[name] && !there.has(name)) there.set(name, await loads[name]());
  };
  const show = async (App, name) => {
    await load(name).catch(() => {});
    const root = document.getElementById("app");
    root.replaceChildren();
    render(html`<${App} />`, root);
    setTimeout(() => Object.keys(loads).map((each) => load(each).catch(() => {})), LATER);
  };
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
    if (Shown) return html`<${Guarded} key=${name} page=${Shown} ...${rest} />`;
    return error
      ? html`<${Failure} error=${error} again=${() => location.reload()} />`
      : html`<div class="skeleton" aria-busy="true"><p class="quiet">Loading…</p></div>`;
  }
  return { show, Page };
}
