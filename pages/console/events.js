/** The events of what runs; they may be asked for before anybody listens. */

const ADDRESS = "/api/live/events";
const HELD = ["live", "now", "hour", "end", "error"];

let ahead;

/** Opens them ahead: what comes is held for who listens. */
export function openAhead() {
  const source = new EventSource(ADDRESS);
  const held = [];
  const hold = (event) => held.push(event);
  for (const name of HELD) source.addEventListener(name, hold);
  ahead = { source, held, hold };
}

/** Their source, and what tells a listener what has come before; those that have ended meanwhile are opened anew. */
export function opened() {
  const found = ahead;
  ahead = undefined;
  if (!found || found.source.readyState === EventSource.CLOSED)
    return { source: new EventSource(ADDRESS), retell: () => {} };
  const { source, held, hold } = found;
  for (const name of HELD) source.removeEventListener(name, hold);
  return { source, retell: () => held.map((event) => source.dispatchEvent(event)) };
}
