/**
 * Runs while the rest of the console is still loading: starts the page's requests. Not for a visitor who is not signed in, whose
 * requests would be refused, with errors in the browser's console.
 */

import { begin } from "../common/first.js";
import { asked, SESSION } from "./asks.js";
import { openAhead } from "./events.js";

begin(SESSION);
if (document.documentElement.dataset.visitor === "known") {
  if (location.pathname === "/" && !document.hidden) openAhead();
  for (const address of asked(location.pathname, Object.fromEntries(new URLSearchParams(location.search))))
    begin(address);
}
