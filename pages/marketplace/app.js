/** The marketplace: the catalogue, a page for each model, the playground. */

import {
  go,
  Head,
  html,
  Keys,
  Ready,
  render,
  useAddress,
  useEffect,
  useJson,
  useKeys,
  useState,
} from "../common/ui.js";
import { Catalogue } from "./catalogue.js";
import { ModelPage } from "./model.js";
import { Playground } from "./play.js";

const PAGES = [
  { to: "/", name: "Models", exact: true },
  { to: "/play", name: "Playground" },
];
const REFRESH = 30_000;

/** The id of the model that a path is the page of. */
const modelOf = (path) => (path.startsWith("/models/") ? decodeURIComponent(path.slice("/models/".length)) : undefined);

function App() {
  const { path, view } = useAddress();
  const found = useJson("/pages/models.json", { every: REFRESH });
  const [help, setHelp] = useState(false);
  // The key stays in memory, unless the reader wants it kept for this tab.
  const [key, setKey] = useState(sessionStorage.getItem("gateway-key") ?? "");
  const id = modelOf(path);
  const keys = [
    ["/", "search", () => document.querySelector("input[type=search]")?.focus()],
    ["j", "next row", () => document.querySelector(".models") && step(1)],
    ["k", "row before", () => document.querySelector(".models") && step(-1)],
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
        ${(facts) =>
          path === "/play"
            ? html`<${Playground} facts=${facts} view=${view} apiKey=${key} setKey=${setKey} />`
            : id === undefined
              ? html`<${Catalogue} facts=${facts} view=${view} />`
              : html`<${ModelPage} facts=${facts} id=${id} view=${view} apiKey=${key} setKey=${setKey} />`}
      <//>
    </main>
    <${Keys} keys=${keys} open=${help} close=${() => setHelp(false)} />`;
}

/** From one row's link to the next. */
function step(by) {
  const links = [...document.querySelectorAll(".models .name a")];
  const at = links.indexOf(document.activeElement);
  links[at < 0 ? 0 : Math.min(links.length - 1, Math.max(0, at + by))]?.focus();
}

const root = document.getElementById("app");
root.replaceChildren();
render(html`<${App} />`, root);
