import t from "tap";
import { CLIENT_BODIES } from "../support/client-bodies.ts";
import { tried } from "../support/sample.ts";
import { SPOKEN } from "../support/translations.ts";
import { PROTOCOLS, type ProtocolName } from "../support/vendor-sdks.ts";
import { type RecordedRequest, requests } from "./request-matrix.ts";
import { RICH_REQUESTS } from "./rich-requests.ts";
import { vanished } from "./vanishing.ts";

const recorded = requests() ?? [];

/** A request that nobody recorded. */
function written(protocol: ProtocolName, id: string, text: string): RecordedRequest {
  const spoken = SPOKEN[protocol];
  const query = new URLSearchParams();
  const located = spoken.locate(spoken.paths[0] as string, "any:generateContent", query);
  if (!located) throw new Error(`${protocol} has no operation`);
  return { protocol, id, operation: located.operation, text };
}

const seen = PROTOCOLS.map((protocol) => written(protocol, "a coding agent's", CLIENT_BODIES[protocol].body));
const rich = PROTOCOLS.flatMap((protocol) =>
  RICH_REQUESTS[protocol].map((body, i) => written(protocol, `rich ${i}`, JSON.stringify(body))),
);

for (const protocol of PROTOCOLS)
  t.test(`${protocol}: an unknown member is passed on, declared or refused, wherever it is`, async (t) => {
    const lost = new Map<string, string>();
    let sent = 0;
    for (const request of [...recorded, ...seen, ...rich].filter((each) => each.protocol === protocol))
      for (const target of PROTOCOLS.filter((each) => each !== protocol)) {
        const found = vanished(request, target);
        if (found) sent++;
        for (const path of found ?? []) {
          const place = path.replaceAll(/\.\d+(?=\.)/g, ".*").replace(/unheard_\d+_of/, "…");
          lost.set(`${place} to ${target}`, `${request.id} ${path}`);
        }
      }
    t.same(Object.fromEntries(lost), {});
    t.ok(sent > (recorded.length > 0 ? tried(500) : 0), `${sent} requests were sent`);
  });
