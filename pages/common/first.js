/**
 * Answers that are asked for as soon as the address is known, while the rest of a page's scripts is still being read. Each is
 * for who asks for it first, once: what is asked again later is asked anew.
 */

const begun = new Map();

/** Asks for something ahead; `fetchJson` takes it. */
export function begin(address) {
  const answer = fetched(address);
  // Told to who takes it.
  answer.catch(() => {});
  begun.set(address, answer);
}

/** What came of an address that was asked ahead, as `{ response, text }`; undefined: nobody has asked. */
export function taken(address) {
  const answer = begun.get(address);
  begun.delete(address);
  return answer;
}

/** What was asked ahead is no good any more, as somebody else asks from now on. */
export const forget = () => begun.clear();

/** An address with what it answers. */
export async function fetched(address, options) {
  const response = await fetch(address, options);
  return { response, text: await response.text() };
}
