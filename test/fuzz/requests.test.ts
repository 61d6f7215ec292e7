import t from "tap";
import { GatewayError } from "../../src/core/errors.ts";
import { type Facts } from "../../src/core/marketplace.ts";
import { type TranslatedProtocol } from "../../src/translation/codec.ts";
import { Envelopes } from "../../src/translation/envelope.ts";
import { readRequest, writeRequest } from "../../src/translation/request.ts";
import { removeUnreadable } from "../../src/translation/unreadable.ts";
import { splice } from "../../src/wire/splice.ts";
import type { JsonObject } from "../../src/wire/values.ts";
import { RICH_REQUESTS } from "../golden/rich-requests.ts";
import { CLIENT_BODIES } from "../support/client-bodies.ts";
import { dice } from "../support/dice.ts";
import { received, SPOKEN } from "../support/translations.ts";
import { PROTOCOLS } from "../support/vendor-sdks.ts";
import { wronged } from "../support/wrong-values.ts";

/** Wrong requests for each protocol. */
const WRONG = 1500;
/** What may be known of a model. */
const FACTS: readonly Facts[] = [
  {},
  { thinking: "none", sampling: false, output: 1 },
  { thinking: "budget", output: 2000, system_in_place: true },
  { thinking: "adaptive", prefill: false },
  { thinking: "level", prefill: true, system_in_place: false },
];

const envelopes = new Envelopes("secret");

/** What is wrong with how a request was taken; undefined: nothing. */
function fault(write: () => string): string | undefined {
  try {
    const text = write();
    JSON.parse(text);
    return /\[object \w+\]|\bundefined\b|\bNaN\b/.exec(text)?.[0];
  } catch (thrown) {
    if (!(thrown instanceof GatewayError)) return (thrown as Error).stack?.split("\n").slice(0, 3).join(" ");
    const { status, code, param, message } = thrown;
    const named = Boolean(param) || /opaque reasoning state/.test(message);
    return status === 400 && named ? undefined : `${status} ${code} for ${param}: ${message}`;
  }
}

for (const protocol of PROTOCOLS)
  t.test(`${protocol}: a request with wrong values is translated, or is a 400 that names the field`, async (t) => {
    const bodies = [...RICH_REQUESTS[protocol], JSON.parse(CLIENT_BODIES[protocol].body) as object];
    const own = { protocol: SPOKEN[protocol] as TranslatedProtocol, account: "them", model: "theirs" };
    const declared = new Set<string>();
    const faults = new Map<string, string>();
    let taken = 0;
    for (let seed = 1; seed <= WRONG; seed++) {
      const cast = dice(seed);
      let body: unknown = bodies[cast(bodies.length)];
      for (let times = cast(3); times >= 0; times--) body = wronged(body, cast);
      // The server lets nothing in that is no object.
      if (typeof body !== "object" || body === null || Array.isArray(body)) continue;
      const text = JSON.stringify(body);
      const facts = FACTS[seed % FACTS.length] as Facts;
      const again = () => {
        const { edits, losses } = removeUnreadable(
          Buffer.from(text),
          body as JsonObject,
          envelopes,
          { ...own, facts },
          false,
        );
        for (const loss of [...losses.dropped, ...losses.notices]) declared.add(loss);
        return Buffer.concat(splice([Buffer.from(text)], edits)).toString();
      };
      const ways = new Map<string, () => string>([["itself", again]]);
      for (const target of PROTOCOLS.filter((each) => each !== protocol)) {
        const to = {
          protocol: SPOKEN[target] as TranslatedProtocol,
          account: "them",
          model: "theirs",
          facts,
        };
        ways.set(target, () => {
          const { encoded } = writeRequest(readRequest(received(protocol, text), envelopes), to, false);
          taken++;
          return encoded.body;
        });
      }
      for (const [target, write] of ways) {
        const wrong = fault(write);
        if (wrong !== undefined && !faults.has(wrong)) faults.set(wrong, `to ${target}: ${text.slice(0, 600)}`);
      }
    }
    t.same(Object.fromEntries([...faults].slice(0, 5)), {});
    t.same([...declared], [], "nothing is lost for a provider of the client's own protocol");
    t.ok(taken > WRONG / 4, `${taken} were translated`);
  });
