/** Signing in with the admin's or the viewer's token. */

import { html, useState } from "../common/ui.js";
import { change } from "./api.js";

export function SignIn({ done }) {
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
  return html`<main id="main" class="page" tabindex="-1">
    <form class="card signin" onSubmit=${send}>
      <h1>Console</h1>
      <p class="quiet">The token is the one that <code>admin: token</code> in gateway.yaml names.</p>
      <label class="field">Token<input type="password" name="token" required autocomplete="current-password" /></label>
      ${state.error && html`<p class="bad" role="alert">${state.error}</p>`}
      <p class="bar"><button class="main" disabled=${state.busy}>Sign in</button></p>
    </form>
  </main>`;
}
