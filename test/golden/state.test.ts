/** What recorded answers want back: their state must come back to the vendor through every client, streamed and whole. */
import t from "tap";
import { asText, type JsonObject } from "../../src/wire/values.ts";
import { CLIENTS, eventsOf } from "../support/four-clients.ts";
import { type Recording, recordings } from "../support/recordings.ts";
import { EVERY_CASE, tried } from "../support/sample.ts";
import { accumulated, PROTOCOLS, type ProtocolName } from "../support/vendor-sdks.ts";
import { asEvents } from "./matrix.ts";
import { listAt, PLAIN, send } from "./sharp-cases.ts";

/** One piece of state, as the vendor wrote it: a thought's, or that of a part with something else on it. */
type State = readonly [on: string, ...opaque: unknown[]];

const signed = (part: JsonObject): State[] => {
  const on = ["functionCall", "executableCode", "codeExecutionResult", "toolCall", "toolResponse", "inlineData"];
  const kind = on.find((name) => part[name] !== undefined) ?? "text";
  return part["thoughtSignature"] === undefined ? [] : [[kind, part["thoughtSignature"]]];
};
const thoughts = ({ type, thinking, signature, data }: JsonObject): State[] =>
  type === "thinking" ? [["thinking", thinking, signature]] : type === "redacted_thinking" ? [["redacted", data]] : [];
const encrypted = ({ type, encrypted_content }: JsonObject): State[] =>
  type === "reasoning" && asText(encrypted_content) ? [["reasoning", encrypted_content]] : [];

/** The state of an answer and that of the turn of a request in which it comes back. */
const VENDORS: Partial<Record<ProtocolName, { given(answer: unknown): State[]; back(body: JsonObject): State[] }>> = {
  "anthropic-messages": {
    given: (answer) => listAt(answer, "content").flatMap(thoughts),
    back: (body) => listAt(body, "messages.1.content").flatMap(thoughts),
  },
  "openai-responses": {
    given: (answer) => listAt(answer, "output").flatMap(encrypted),
    back: (body) => listAt(body, "input").flatMap(encrypted),
  },
  gemini: {
    given: (answer) =>
      (Array.isArray(answer) ? answer : [answer]).flatMap((chunk) =>
        listAt(chunk, "candidates.0.content.parts").flatMap(signed),
      ),
    back: (body) => listAt(body, "contents.1.parts").flatMap(signed),
  },
};

/** The request that goes on from an answer. */
async function next(client: ProtocolName, told: string, stream: boolean): Promise<JsonObject> {
  const side = CLIENTS[client] as (typeof CLIENTS)[string];
  const asked =
    client === "openai-responses" ? { ...PLAIN[client], input: [{ role: "user", content: "Hi" }] } : PLAIN[client];
  if (client !== "gemini") return side.next(asked, (await accumulated(client, stream, told)) as JsonObject, "Go on.");
  const chunks = stream ? eventsOf(told) : [JSON.parse(told) as JsonObject];
  const parts = chunks.flatMap((chunk) => listAt(chunk, "candidates.0.content.parts"));
  return side.next(asked, { candidates: [{ content: { role: "model", parts } }] }, "Go on.");
}

/** States short enough to be read. */
const shown = (states: readonly State[]): string =>
  JSON.stringify(states, (_, value: unknown) => (typeof value === "string" ? value.slice(-16) : value));

const found = recordings()?.filter(
  ({ protocol, status, kinds }) => protocol in VENDORS && status < 300 && kinds.includes("signature"),
);

/** The state of a recorded answer; none of an answer that its vendor's own SDK refuses. */
async function stateOf({ protocol, streaming, body }: Recording): Promise<State[]> {
  const vendor = protocol as ProtocolName;
  const answer = await accumulated(vendor, streaming, body.toString()).catch(() => undefined);
  // The end of a stream of Responses repeats its items with their state encrypted once more: other bytes, the same state.
  const items = eventsOf(body.toString()).filter(({ type }) => type === "response.output_item.done");
  const output = items.map(({ item }) => item);
  return VENDORS[vendor]?.given(answer && items.length > 0 ? { output } : answer) ?? [];
}

/** Answers whose state would stand alone: there is nothing behind it that clients of these protocols could send back. */
const ALONE = /image_generation/;

const states = new Map<Recording, State[]>();
for (const recording of found?.map(asEvents) ?? []) states.set(recording, await stateOf(recording));

for (const [vendor, { back }] of Object.entries(VENDORS))
  for (const client of PROTOCOLS.filter((each) => each !== vendor))
    t.test(
      `the state of every recorded answer of ${vendor} is returned through a client of ${client}`,
      { skip: !found && "recordings are absent" },
      async (t) => {
        const faults: string[] = [];
        let pieces = 0;
        for (const [{ id, protocol, body, streaming }, wanted] of states) {
          if (protocol !== vendor || wanted.length === 0 || (ALONE.test(id) && client !== "gemini")) continue;
          pieces += wanted.length;
          const first = send(client, PLAIN[client], vendor as ProtocolName, { stream: streaming });
          const told = streaming ? first.streamed(body).text : JSON.stringify(first.whole(body.toString()));
          const second = send(client, await next(client, told, streaming), vendor as ProtocolName, {
            stream: streaming,
          });
          const is = back(second.body);
          if (JSON.stringify(is) !== JSON.stringify(wanted))
            faults.push(`${id}: ${shown(is)} instead of ${shown(wanted)}`);
        }
        t.ok(pieces > tried(50), `${pieces} pieces of state`);
        t.same(faults, []);
      },
    );

for (const vendor of ["openai-responses", "gemini"] as const)
  t.test(
    `the state of every recorded answer of ${vendor} with calls is returned through a client that requests no thinking, and no other`,
    { skip: !found && "recordings are absent" },
    async (t) => {
      const faults: string[] = [];
      let pieces = 0;
      const { thinking: _, ...asked } = PLAIN["anthropic-messages"];
      for (const [{ id, protocol, body, streaming }, wanted] of states) {
        if (protocol !== vendor || wanted.length === 0) continue;
        const first = send("anthropic-messages", asked, vendor, { stream: streaming });
        const told = streaming ? first.streamed(body).text : JSON.stringify(first.whole(body.toString()));
        if (told.includes('"type":"thinking"')) faults.push(`${id}: shows thinking`);
        const uses = told.includes('"type":"tool_use"');
        if (!uses && told.includes("redacted_thinking")) faults.push(`${id}: shows state without a call`);
        if (!uses) continue;
        pieces += wanted.length;
        const second = send("anthropic-messages", await next("anthropic-messages", told, streaming), vendor, {
          stream: streaming,
        });
        const is = VENDORS[vendor]?.back(second.body) ?? [];
        if (JSON.stringify(is) !== JSON.stringify(wanted))
          faults.push(`${id}: ${shown(is)} instead of ${shown(wanted)}`);
      }
      // A sample may have none.
      t.ok(pieces > 20 || !EVERY_CASE, `${pieces} pieces of state`);
      t.same(faults, []);
    },
  );
