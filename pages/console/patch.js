/** Structure stands in gateway.yaml alone: what belongs there is shown as lines to paste, and never written by the console. */

import { Code, html } from "../common/ui.js";
import { yaml } from "./yaml.js";

/** @param now whether it is what the file says already, and what it could say besides */
export const Patch = ({ tree, what, now = false }) => html`<p class="small">
    ${
      now
        ? "This is what gateway.yaml says now, and behind # what could stand there. Change it, put it over the same lines there,"
        : "Put this into gateway.yaml, merged with what is there,"
    } and reload (<code>model-gateway reload</code>, or the page Config):
  </p>
  <${Code} text=${yaml(tree)} label=${`lines for gateway.yaml: ${what}`} />`;
