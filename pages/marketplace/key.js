/** The reader's gateway key: in memory, or in this tab's storage if they choose so; never in a URL. */

import { keep, kept } from "../common/storage.js";
import { html, useState } from "../common/ui.js";

const NAME = "gateway-key";

/** Returns the key that the reader has kept in this tab, or an empty text. */
export const keptKey = () => kept("sessionStorage", NAME) ?? "";

export function KeyField({ apiKey, setKey }) {
  const [isKept, setKept] = useState(keptKey() !== "");
  const store = (key, wanted) => keep("sessionStorage", NAME, wanted && key ? key : null);
  const type = (event) => {
    const key = event.currentTarget.value.trim();
    setKey(key);
    store(key, isKept);
  };
  const choose = (event) => {
    setKept(event.currentTarget.checked);
    store(apiKey, event.currentTarget.checked);
  };
  return html`<label class="field wide">Key
      <input type="password" autocomplete="off" spellcheck=${false} placeholder="gw_…" value=${apiKey} onInput=${type} />
    </label>
    <label class="check small"><input type="checkbox" checked=${isKept} onChange=${choose} /> keep in this tab</label>`;
}
