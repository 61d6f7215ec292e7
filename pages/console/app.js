/** The console, for operators. */

import { forget } from "../common/first.js";
import { offset } from "../common/format.js";
import { lazily } from "../common/lazy.js";
import {
  go,
  Head,
  html,
  Keys,
  Link,
  Ready,
  useAddress,
  useEffect,
  useKeys,
  useLayoutEffect,
  useState,
  walk,
} from "../common/ui.js";
import { onSignedOut } from "./api.js";
import { requestOf, SESSION } from "./asks.js";
import { Act, useApi } from "./parts.js";

const PAGES = [
  { to: "/", name: "Now", exact: true, key: "gn" },
  { to: "/requests", name: "Requests", key: "gr" },
  { to: "/money", name: "Money", key: "gm" },
  { to: "/providers", name: "Providers", key: "gp" },
  { to: "/keys", name: "Keys", key: "gk" },
  { to: "/config", name: "Config", key: "gc" },
  { to: "/audit", name: "Audit", key: "ga" },
];

/** Each page has a file of its own, which the server preloads in that page's shell. */
const { show, Page } = lazily({
  "/": () => import("./now.js").then(({ Now }) => Now),
  "/requests": () => import("./requests.js").then(({ Requests }) => Requests),
  "/requests/": () => import("./exchange.js").then(({ Exchange }) => Exchange),
  "/money": () => import("./money.js").then(({ Money }) => Money),
  "/providers": () => import("./providers.js").then(({ Providers }) => Providers),
  "/keys": () => import("./keys.js").then(({ KeysPage }) => KeysPage),
  "/config": () => import("./config.js").then(({ Config }) => Config),
  "/audit": () => import("./audit.js").then(({ Audit }) => Audit),
  sign_in: () => import("./sign-in.js").then(({ SignIn }) => SignIn),
});

const REQUEST = "/requests/";
/** Returns the name of the page at a path. */
const nameOf = (path) => (requestOf(path) === undefined ? path : REQUEST);

function App() {
  const { path, view } = useAddress();
  const session = useApi(SESSION);
  const [help, setHelp] = useState(false);
  useLayoutEffect(() => onSignedOut(session.again));
  const keys = [
    ["/", "search", () => document.querySelector("main input")?.focus()],
    ["j", "next row", () => walk(".rows a[data-page]", 1)],
    ["k", "row before", () => walk(".rows a[data-page]", -1)],
    ...PAGES.map(({ to, name, key }) => [key, name, () => go(to)]),
    ["?", "these keys", () => setHelp(true)],
  ];
  useKeys(keys);
  const name = PAGES.find(({ to }) => to === path)?.name ?? (requestOf(path) ? "Request" : "No such page");
  useEffect(() => {
    document.title = `${name} · Console`;
  }, [name]);
  return html`<${Ready} found=${session}>
      ${({ role, who, timezone, sign_in: ways }) =>
        role === null
          ? html`<${SignedOut} done=${session.again} ways=${ways} problem=${view.sign_in} />`
          : html`<${Head} title="Console" home="/" pages=${PAGES} path=${path}>
                ${role === "viewer" && html`<span class="chip">viewer</span>`}
                ${who?.startsWith("oidc:") && html`<span class="quiet small">${who.slice("oidc:".length)}</span>`}
                ${ways.length > 0 && html`<${Act} label="Sign out" act=${() => ["DELETE", SESSION]} done=${session.again} />`}
              <//>
              <main id="main" class="page" tabindex="-1"><${At} path=${path} view=${view} may=${role === "admin"} /></main>
              <footer class="zones quiet small">Times are this browser's (${offset(Date.now())}). ${timezone && `Days, weeks and months of spend and budgets begin at midnight in ${timezone}, gateway.yaml's timezone.`}</footer>
              <${Keys} keys=${keys} open=${help} close=${() => setHelp(false)} />`}
    <//>`;
}

/** @param may whether the visitor may change things */
function At({ path, view, may }) {
  if (PAGES.some(({ to }) => to === path)) return html`<${Page} name=${path} view=${view} may=${may} />`;
  const id = requestOf(path);
  // A page for each request, as the browser's history may lead from one to another.
  if (id !== undefined) return html`<${Page} key=${id} name=${REQUEST} id=${id} may=${may} />`;
  return html`<h1>There is no such page</h1>
    <p><${Link} to="/">What happens now<//></p>`;
}

function SignedOut(props) {
  // Prefetched responses may be refusals, where the session ended after the page was served.
  useLayoutEffect(forget, []);
  return html`<${Page} name="sign_in" ...${props} />`;
}

await show(App, nameOf(location.pathname));
