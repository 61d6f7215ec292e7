/** The event stream of running requests; it may be opened before there is a listener. */

const ADDRESS = "/api/live/events";
const EVENTS = ["live", "now", "hour", "end", "error"];

let ahead;
/** Whether the page has asked for the stream: scripts may be loaded in any order. */
let isLate = false;

/** Opens the stream early, and buffers its events for the listener. */
export function openAhead() {
  if (isLate) return;
  const source = new EventSource(ADDRESS);
  const buffered = [];
  const buffer = (event) => buffered.push(event);
  for (const name of EVENTS) source.addEventListener(name, buffer);
  ahead = { source, buffered, buffer };
  // A hidden page opens another one when it is shown.
  document.addEventListener("visibilitychange", () => ahead?.source.close(), { once: true });
}

/** Returns the stream, and a function that dispatches the buffered events again; reopens a stream that has ended meanwhile. */
export function opened() {
  isLate = true;
  const found = ahead;
  ahead = undefined;
  if (!found || found.source.readyState === EventSource.CLOSED)
    return { source: new EventSource(ADDRESS), replay: () => {} };
  const { source, buffered, buffer } = found;
  for (const name of EVENTS) source.removeEventListener(name, buffer);
  return { source, replay: () => buffered.map((event) => source.dispatchEvent(event)) };
}
