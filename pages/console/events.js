/** The event stream of running requests; it may be opened before there is a listener. */

const ADDRESS = "/api/live/events";
const HELD = ["live", "now", "hour", "end", "error"];

let ahead;

/** Opens the stream early, and holds its events for the listener. */
export function openAhead() {
  const source = new EventSource(ADDRESS);
  const held = [];
  const hold = (event) => held.push(event);
  for (const name of HELD) source.addEventListener(name, hold);
  ahead = { source, held, hold };
}

/** Returns the stream, and a function that dispatches the held events again; reopens a stream that has ended meanwhile. */
export function opened() {
  const found = ahead;
  ahead = undefined;
  if (!found || found.source.readyState === EventSource.CLOSED)
    return { source: new EventSource(ADDRESS), retell: () => {} };
  const { source, held, hold } = found;
  for (const name of HELD) source.removeEventListener(name, hold);
  return { source, retell: () => held.map((event) => source.dispatchEvent(event)) };
}
