/**
 * Runs while the rest of the console is still being read: what the address is for is asked at once. Who is not signed in would only
 * be refused, and the browser's console would tell of errors.
 */

import { begin } from "../common/first.js";
import { asked, SESSION } from "./asks.js";
import { openAhead } from "./events.js";

begin(SESSION);
if (document.documentElement.dataset.visitor === "known") {
  if (location.pathname === "/") openAhead();
  for (const address of asked(location.pathname, Object.fromEntries(new URLSearchParams(location.search))))
    begin(address);
}
