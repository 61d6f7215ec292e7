/** The console: for those who run the gateway. */

import { go, Head, html, Keys, Ready, render, useAddress, useEffect, useKeys, useState, walk } from "../common/ui.js";
import { change, onSignedOut } from "./api.js";
import { Audit } from "./audit.js";
import { Config } from "./config.js";
import { Exchange } from "./exchange.js";
import { KeysPage } from "./keys.js";
import { Money } from "./money.js";
import { Now } from "./now.js";
import { useApi } from "./parts.js";
import { Providers } from "./providers.js";
import { Requests } from "./requests.js";
import { SignIn } from "./sign-in.js";

const PAGES = [
  { to: "/", name: "Now", exact: true, key: "gn" },
  { to: "/requests", name: "Requests", key: "gr" },
  { to: "/money", name: "Money", key: "gm" },
  { to: "/providers", name: "Providers", key: "gp" },
  { to: "/keys", name: "Keys", key: "gk" },
  { to: "/config", name: "Config", key: "gc" },
  { to: "/audit", name: "Audit", key: "ga" },
];

const SHOW = {
  "/": Now,
  "/requests": Requests,
  "/money": Money,
  "/providers": Providers,
  "/keys": KeysPage,
  "/config": Config,
  "/audit": Audit,
};

function App() {
  const { path, view } = useAddress();
  const session = useApi("/api/session");
  const [help, setHelp] = useState(false);
  onSignedOut(session.again);
  const keys = [
    ["/", "search", () => document.querySelector("main input")?.focus()],
    ["j", "next row", () => walk(".rows a[data-page]", 1)],
    ["k", "row before", () => walk(".rows a[data-page]", -1)],
    ...PAGES.map(({ to, name, key }) => [key, name, () => go(to)]),
    ["?", "these keys", () => setHelp(true)],
  ];
  useKeys(keys);
  const name = PAGES.find(({ to }) => to === path)?.name ?? (path.startsWith("/requests/") ? "Request" : "Console");
  useEffect(() => {
    document.title = `${name} · Console`;
  }, [name]);
  return html`<${Ready} found=${session}>
      ${({ role, who, sign_in: ways }) =>
        role === null
          ? html`<${SignIn} done=${session.again} ways=${ways} problem=${view.sign_in} />`
          : html`<${Head} title="Console" home="/" pages=${PAGES} path=${path}>
                ${role === "viewer" && html`<span class="chip">viewer</span>`}
                ${who?.startsWith("oidc:") && html`<span class="quiet small">${who.slice("oidc:".length)}</span>`}
                ${ways.length > 0 && html`<button type="button" class="small" onClick=${() => change("DELETE", "/api/session").then(session.again)}>Sign out</button>`}
              <//>
              <main id="main" class="page" tabindex="-1"><${Page} path=${path} view=${view} may=${role === "admin"} /></main>
              <${Keys} keys=${keys} open=${help} close=${() => setHelp(false)} />`}
    <//>`;
}

/** @param may whether things may be changed */
function Page({ path, view, may }) {
  if (path.startsWith("/requests/")) return html`<${Exchange} id=${path.slice("/requests/".length)} may=${may} />`;
  const Shown = SHOW[path];
  return Shown ? html`<${Shown} view=${view} may=${may} />` : html`<h1>No such page</h1>`;
}

const root = document.getElementById("app");
root.replaceChildren();
render(html`<${App} />`, root);
