/** The admin API, as docs/admin-api.md tells. */

import { fetchJson } from "../common/ui.js";

/** Called when the gateway says that nobody is signed in any more. */
let signedOut = () => {};

export const onSignedOut = (act) => {
  signedOut = act;
};

/** @throws Error with the gateway's words and its status */
export async function get(path) {
  return guarded(fetchJson(path));
}

/**
 * Changes something.
 * @returns the answer, undefined where it has none
 * @throws Error with the gateway's words and its status
 */
export async function change(method, path, body) {
  const options = { method, headers: { "content-type": "application/json" } };
  if (body !== undefined) options.body = JSON.stringify(body);
  return guarded(answered(await fetch(path, options)));
}

async function answered(response) {
  const text = await response.text();
  if (response.ok) return text === "" ? undefined : JSON.parse(text);
  let json;
  try {
    json = JSON.parse(text);
  } catch {
    json = undefined;
  }
  const message = json?.error?.message ?? `The gateway answered ${response.status}.`;
  throw Object.assign(new Error(message), { status: response.status, json });
}

async function guarded(promise) {
  try {
    return await promise;
  } catch (error) {
    if (error.status === 401) signedOut();
    throw error;
  }
}
