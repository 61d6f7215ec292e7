/** Sign-in: at the identity provider, or with the admin's or the viewer's token. */

import { html, useState } from "../common/ui.js";
import { change } from "./api.js";
import { api } from "./asks.js";

/** Messages about a failed sign-in at the identity provider. */
const PROBLEMS = {
  away: "The identity provider does not answer. The gateway's log says why.",
  failed: "Signing in did not work. The gateway's log says why.",
  late: "That took too long, or began in another browser. Try again.",
  no_role:
    "You are known there, and may not use this console. Whoever runs the gateway names groups in admin: oidc: roles.",
};

/** @param problem why a sign-in failed */
export const SignIn = ({ done, ways, problem }) => html`<main id="main" class="page" tabindex="-1">
  <div class="card signin">
    <h1>Console</h1>
    ${PROBLEMS[problem] && html`<p class="bad" role="alert">${PROBLEMS[problem]}</p>`}
    ${ways.includes("oidc") && html`<p class="bar"><a class="button main" href=${api("/api/session/oidc", { to: here() })}>Sign in</a></p>`}
    ${ways.includes("token") && html`<${ByToken} done=${done} main=${!ways.includes("oidc")} />`}
  </div>
</main>`;

/** Returns the requested page. */
function here() {
  const query = new URLSearchParams(location.search);
  query.delete("sign_in");
  return query.size > 0 ? `${location.pathname}?${query}` : location.pathname;
}

/** @param main whether there is no other way to sign in */
function ByToken({ done, main }) {
  const [state, set] = useState({});
  const send = async (event) => {
    event.preventDefault();
    const token = new FormData(event.currentTarget).get("token");
    set({ busy: true });
    try {
      await change("POST", "/api/session", { token });
      done();
    } catch (error) {
      set({ error: error.status === 401 ? "That token is not known here." : error.message });
    }
  };
  return html`<form onSubmit=${send}>
    <p class="quiet">${main ? "" : "Or by token: "}The token is the one that <code>admin: token</code> in gateway.yaml names.</p>
    <label class="field">Token<input type="password" name="token" required autocomplete="current-password" autofocus=${main} /></label>
    ${state.error && html`<p class="bad" role="alert">${state.error}</p>`}
    <p class="bar"><button class=${main ? "main" : ""} disabled=${state.busy}>Sign in with the token</button></p>
  </form>`;
}
