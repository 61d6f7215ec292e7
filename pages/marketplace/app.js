/** The marketplace: the catalogue, a page for each model, the playground. */

import { lazily } from "../common/lazy.js";
import { go, Head, html, Keys, Ready, useAddress, useEffect, useJson, useKeys, useState, walk } from "../common/ui.js";
import { MODELS } from "./first.js";
import { keptKey } from "./key.js";

const PAGES = [
  { to: "/", name: "Models", exact: true },
  { to: "/play", name: "Playground" },
];
const REFRESH = 30_000;

/** Each page has a file of its own, which the server preloads in that page's shell. */
const { show, Page } = lazily({
  catalogue: () => import("./catalogue.js").then(({ Catalogue }) => Catalogue),
  model: () => import("./model.js").then(({ ModelPage }) => ModelPage),
  play: () => import("./play.js").then(({ Playground }) => Playground),
});

/** Returns the id of the model whose page is at a path. */
const modelOf = (path) => (path.startsWith("/models/") ? decodeURIComponent(path.slice("/models/".length)) : undefined);

/** Returns the name of the page at a path. */
const nameOf = (path) => (path === "/play" ? "play" : modelOf(path) === undefined ? "catalogue" : "model");

function App() {
  const { path, view } = useAddress();
  const found = useJson(MODELS, { every: REFRESH });
  const [help, setHelp] = useState(false);
  // The key stays in memory, unless the reader chooses to keep it for this tab.
  const [key, setKey] = useState(keptKey);
  const id = modelOf(path);
  const keys = [
    ["/", "search", () => document.querySelector("input[type=search]")?.focus()],
    ["j", "next row", () => walk(".models .name a", 1)],
    ["k", "row before", () => walk(".models .name a", -1)],
    ["gm", "models", () => go("/")],
    ["gp", "playground", () => go("/play")],
    ["?", "these keys", () => setHelp(true)],
  ];
  useKeys(keys);
  useEffect(() => {
    document.title = id ? `${id} · Models` : path === "/play" ? "Playground" : "Models";
  }, [path]);
  return html`<${Head} title="model-gateway" home="/" pages=${PAGES} path=${path} />
    <main id="main" class="page" tabindex="-1">
      <${Ready} found=${found}>
        ${(facts) => html`<${Page} name=${nameOf(path)} facts=${facts} id=${id} view=${view} apiKey=${key} setKey=${setKey} />`}
      <//>
    </main>
    <${Keys} keys=${keys} open=${help} close=${() => setHelp(false)} />`;
}

await show(App, nameOf(location.pathname));
