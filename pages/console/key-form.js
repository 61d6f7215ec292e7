/** The form for a new key of the store, or for changing one. */

import { html, useLayoutEffect, useRef, useState } from "../common/ui.js";
import { change, get } from "./api.js";
import { fieldsOf } from "./key-fields.js";
import { LIMITS, wordsOf } from "./limits.js";

const DAY = 86_400_000;
const CONFLICT = 409;

export function KeyForm({ of: opened, close, done }) {
  const [error, setError] = useState();
  const [of, setOf] = useState(opened);
  const first = useRef();
  // Before the browser draws it: later it would take the focus from a field that the reader has begun to fill in.
  useLayoutEffect(() => first.current?.focus(), []);
  const send = async (event) => {
    event.preventDefault();
    const form = event.currentTarget;
    const texts = Object.fromEntries(new FormData(form));
    const before = Array.from(form.elements, ({ name, defaultValue = "" }) => [name, defaultValue]);
    try {
      const answer =
        of.id === undefined
          ? await change("POST", "/api/keys", fieldsOf(texts))
          : await change("PATCH", `/api/keys/${of.id}`, {
              ...fieldsOf(texts, Object.fromEntries(before)),
              version: of.version,
            });
      close();
      done(answer);
    } catch (thrown) {
      setError(thrown);
      if (thrown.status === CONFLICT) await loadAgain(thrown).catch(setError);
    }
  };
  // Somebody else may have changed it: the list and the fields that the reader has not filled in then show what it is now.
  const loadAgain = async ({ message }) => {
    done();
    if (of.id === undefined) return;
    const { key } = await get(`/api/keys/${of.id}`);
    if (key.version === of.version) return;
    setOf(key);
    setError({ message: `${message} Other fields now show what the key is; yours can be saved again.` });
  };
  const date = of.expires ? new Date(of.expires).toISOString().slice(0, 10) : "";
  const tomorrow = new Date(Date.now() + DAY).toISOString().slice(0, 10);
  // An expired key can be changed without another date.
  const least = date !== "" && date < tomorrow ? date : tomorrow;
  return html`<form class="card" onSubmit=${send} aria-label=${of.id ? `Change ${of.name}` : "Make a key"}>
    <div class="bar">
      <label class="field">Name<input name="name" ref=${first} required defaultValue=${of.name} /></label>
      <label class="field">Group<input name="group" placeholder="acme/research" defaultValue=${of.group} /></label>
      <label class="field">Owner<input name="owner" defaultValue=${of.owner} /></label>
      <label class="field">Expires (UTC)<input name="expires" type="date" min=${least} defaultValue=${date} /></label>
      ${LIMITS.map(
        ([name, title, hint]) =>
          html`<label class="field">${title}<input name=${name} placeholder=${hint} defaultValue=${wordsOf(of[name])} /></label>`,
      )}
      <label class="field wide">Models, by id; * is any text<input name="models" placeholder="all" defaultValue=${(of.models ?? []).join(", ")} /></label>
      <label class="field wide">Paths<input name="paths" placeholder="all" defaultValue=${(of.paths ?? []).join(", ")} /></label>
      <label class="field wide">Addresses<input name="addresses" placeholder="all" defaultValue=${(of.addresses ?? []).join(", ")} /></label>
      <label class="field wide">Tags<input name="tags" placeholder="team=search" defaultValue=${Object.entries(
        of.tags ?? {},
      )
        .map((tag) => tag.join("="))
        .join(", ")} /></label>
    </div>
    ${error && html`<p class="bad" role="alert">${error.message}</p>`}
    <p class="bar"><button class="main">${of.id ? "Save" : "Make it"}</button><button type="button" onClick=${close}>Not now</button></p>
  </form>`;
}
