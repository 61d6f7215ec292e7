/** Requests to the admin API, which docs/admin-api.md describes. */

import { fetchJson } from "../common/ui.js";

/** Called when a response shows that the session has ended. */
let signedOut = () => {};

export const onSignedOut = (act) => {
  signedOut = act;
};

/** Fetches JSON. @throws Error with the gateway's message and its status */
export async function get(path) {
  return guarded(fetchJson(path));
}

/**
 * Sends a change.
 * @returns the response's JSON, undefined where it has none
 * @throws Error with the gateway's message and its status
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
