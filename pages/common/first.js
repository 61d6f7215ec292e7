/**
 * Prefetched responses, requested as soon as the URL is known, while the rest of a page's scripts is still loading. Each is used
 * once: a later request for the same URL is sent again.
 */

const begun = new Map();
/** What has been requested meanwhile: scripts may be loaded in any order. */
const asked = new Set();

/** Starts a request early; `fetchJson` takes its response. */
export function begin(address) {
  if (asked.has(address)) return;
  const answer = fetched(address);
  // The error is handled by whoever takes the response.
  answer.catch(() => {});
  begun.set(address, answer);
}

/** Takes a prefetched response, as `{ response, text }`; undefined: it was not requested. */
export function taken(address) {
  asked.add(address);
  const answer = begun.get(address);
  begun.delete(address);
  return answer;
}

/** Discards prefetched responses, because another user signs in. */
export const forget = () => begun.clear();

/** Fetches a URL with the text of its response. */
export async function fetched(address, options) {
  const response = await fetch(address, options);
  return { response, text: await response.text() };
}
