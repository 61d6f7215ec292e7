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
  return guarded(fetchJson(path, options));
}

async function guarded(promise) {
  try {
    return await promise;
  } catch (error) {
    if (error.status === 401) signedOut();
    throw error;
  }
}
