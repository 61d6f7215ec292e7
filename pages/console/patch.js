/** The console never writes gateway.yaml: it shows lines to paste. */

import { Code, html } from "../common/ui.js";
import { yaml } from "./yaml.js";

/** @param now whether the lines are the current settings, with unset ones as comments */
export const Patch = ({ tree, what, now = false }) => html`<p class="small">
    ${
      now
        ? "This is what gateway.yaml says now, and behind # what could stand there. Change it, put it over the same lines there,"
        : "Put this into gateway.yaml, merged with what is there,"
    } and reload (<code>model-gateway reload</code>, or the page Config):
  </p>
  <${Code} text=${yaml(tree)} label=${`lines for gateway.yaml: ${what}`} />`;
