/** The reader's gateway key: in memory, or in this tab's storage if they choose so; never in a URL. */

import { html, useState } from "../common/ui.js";

export function KeyField({ apiKey, setKey }) {
  const [kept, keep] = useState(sessionStorage.getItem("gateway-key") !== null);
  const store = (key, wanted) => {
    if (wanted && key) sessionStorage.setItem("gateway-key", key);
    else sessionStorage.removeItem("gateway-key");
  };
  const type = (event) => {
    const key = event.currentTarget.value.trim();
    setKey(key);
    store(key, kept);
  };
  const choose = (event) => {
    keep(event.currentTarget.checked);
    store(apiKey, event.currentTarget.checked);
  };
  return html`<label class="field wide">Key
      <input type="password" autocomplete="off" spellcheck=${false} placeholder="gw_…" value=${apiKey} onInput=${type} />
    </label>
    <label class="check small"><input type="checkbox" checked=${kept} onChange=${choose} /> keep in this tab</label>`;
}
