/** Running requests from the gateway's event stream. */

import { useLayoutEffect, useState } from "../common/ui.js";
import { get } from "./api.js";
import { opened } from "./events.js";

/**
 * Follows the running requests, oldest first, and the figures of the first page.
 * @returns three states for `Ready`: `live` with `{ requests, running }`, `now` with the figures, `hour` with those of the last
 * hour
 */
export function useLive() {
  const [live, setLive] = useState({ state: "loading" });
  const [now, setNow] = useState({ state: "loading" });
  const [hour, setHour] = useState({ state: "loading" });
  useLayoutEffect(() => {
    const rows = new Map();
    const { source, replay } = opened();
    const failed = (error) => (before) => ({ ...before, state: before.value ? "stale" : "failed", error });
    const stale = (error) => (before) => (before.value ? { ...before, state: "stale", error } : before);
    source.onopen = () => rows.clear();
    source.addEventListener("live", ({ data }) => {
      const { time, running, requests, gone } = JSON.parse(data);
      for (const id of gone) rows.delete(id);
      for (const each of requests) rows.set(each.id, { ...rows.get(each.id), ...each });
      const shown = [...rows.values()].map((each) => ({ ...each, age: time - each.time }));
      setLive({ state: "ready", value: { requests: shown, running }, at: Date.now() });
    });
    source.addEventListener("now", ({ data }) => setNow({ state: "ready", value: JSON.parse(data), at: Date.now() }));
    source.addEventListener("hour", ({ data }) => {
      const { problem, ...value } = JSON.parse(data);
      setHour(problem ? failed(new Error(problem)) : { state: "ready", value, at: Date.now() });
    });
    source.addEventListener("end", () => {
      source.close();
      // This request fails with 401, which shows the sign-in page.
      get("/api/now").catch(() => {});
    });
    source.onerror = () => {
      const error = new Error("The gateway cannot be reached.");
      setLive(stale(error));
      setNow(stale(error));
      setHour(stale(error));
      if (source.readyState !== EventSource.CLOSED) return;
      get("/api/now").catch((error) => {
        setLive(failed(error));
        setNow(failed(error));
        setHour(failed(error));
      });
    };
    replay();
    return () => source.close();
  }, []);
  return { live, now, hour };
}
