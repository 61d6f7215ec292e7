/** Running requests from the gateway's event stream. */

import { useLayoutEffect, useState } from "../common/ui.js";
import { get } from "./api.js";
import { NOW } from "./asks.js";
import { opened } from "./events.js";

/** Milliseconds without an event after which the stream is opened again: figures come every three seconds. */
const SILENCE = 30_000;
/** Milliseconds after which a refused stream is requested again. */
const RETRY = 5000;

const UNREACHABLE = new Error("The gateway cannot be reached.");
const SILENT = new Error("The gateway has sent nothing for 30 seconds.");
const REFUSED = new Error(
  "The gateway sends these to 50 pages at most, or a proxy refuses them. They are requested again.",
);

const failed = (error) => (before) => ({ ...before, state: before.value ? "stale" : "failed", error });
const stale = (error) => (before) => (before.value ? { ...before, state: "stale", error } : before);
const ready = (value) => ({ state: "ready", value, at: Date.now() });

/**
 * Follows the running requests, oldest first, and the figures of the first page, while the page is visible: a browser has six
 * connections to a server that speaks HTTP/1.1, and hidden tabs would take them from the visible one.
 * @returns three states for `Ready`: `live` with `{ requests, running }`, `now` with the figures, `hour` with those of the last
 * hour
 */
export function useLive() {
  const [live, setLive] = useState({ state: "loading" });
  const [now, setNow] = useState({ state: "loading" });
  const [hour, setHour] = useState({ state: "loading" });
  useLayoutEffect(() => {
    const setAll = (change) => [setLive, setNow, setHour].map((set) => set(change));
    let gone = false;
    let source;
    let timer;
    const reopenIn = (pause, error) => {
      clearTimeout(timer);
      timer = setTimeout(() => {
        if (error) setAll(failed(error));
        open();
      }, pause);
    };
    const close = () => {
      clearTimeout(timer);
      source?.close();
      source = undefined;
    };
    function open() {
      close();
      if (gone || document.hidden) return;
      const { source: own, replay } = opened();
      source = own;
      reopenIn(SILENCE, SILENT);
      const rows = new Map();
      own.onopen = () => rows.clear();
      const on = (name, act) =>
        own.addEventListener(name, ({ data }) => {
          reopenIn(SILENCE, SILENT);
          act(JSON.parse(data));
        });
      on("live", ({ time, running, requests, gone: ended }) => {
        for (const id of ended) rows.delete(id);
        for (const each of requests) rows.set(each.id, { ...rows.get(each.id), ...each });
        const shown = [...rows.values()].map((each) => ({ ...each, age: time - each.time }));
        setLive(ready({ requests: shown, running }));
      });
      on("now", (value) => setNow(ready(value)));
      on("hour", ({ problem, ...value }) => setHour(problem ? failed(new Error(problem)) : ready(value)));
      own.addEventListener("end", () => {
        close();
        // This request fails with 401, which shows the sign-in page, unless somebody has signed in again meanwhile.
        get(NOW).then(open, () => reopenIn(RETRY));
      });
      own.onerror = () => {
        if (own.readyState !== EventSource.CLOSED) {
          setAll(stale(UNREACHABLE));
          return;
        }
        // Browsers do not try again where the answer was no stream, as that of a proxy while the gateway restarts.
        reopenIn(RETRY);
        const set = (error, value) => {
          if (source !== own) return;
          setAll(failed(error));
          if (value) setNow(ready(value));
        };
        get(NOW).then((value) => set(REFUSED, value), set);
      };
      replay();
    }
    const look = () => {
      if (document.hidden) close();
      else if (!source) open();
    };
    document.addEventListener("visibilitychange", look);
    look();
    return () => {
      gone = true;
      document.removeEventListener("visibilitychange", look);
      close();
    };
  }, []);
  return { live, now, hour };
}
