/** Whether a member that nobody knows gets lost on the way to another vendor without a word. */
import { GatewayError } from "../../src/core/errors.ts";
import { type TranslatedProtocol } from "../../src/translation/codec.ts";
import { Envelopes } from "../../src/translation/envelope.ts";
import { supportOf } from "../../src/translation/features.ts";
import { readRequest, writeRequest } from "../../src/translation/request.ts";
import { HeaderList } from "../../src/wire/headers.ts";
import { Query } from "../../src/wire/query.ts";
import { SPOKEN } from "../support/translations.ts";
import type { ProtocolName } from "../support/vendor-sdks.ts";
import type { RecordedRequest } from "./request-matrix.ts";

/** A member that no protocol has. */
interface Added {
  name: string;
  /** Where it stands, like `messages.0.unheard_3_of`. */
  path: string;
}

/**
 * JSON with a member of its own name added to every object, whatever the object is.
 * @param kept paths of members that are not added
 */
function withUnknown(body: unknown, kept: ReadonlySet<string>): { body: unknown; added: Added[] } {
  const added: Added[] = [];
  let count = 0;
  const grown = (json: unknown, at: string): unknown => {
    if (Array.isArray(json)) return json.map((each, i) => grown(each, below(at, String(i))));
    if (typeof json !== "object" || json === null) return json;
    const members = Object.entries(json).map(([name, each]) => [name, grown(each, below(at, name))]);
    const n = count++;
    const name = `unheard_${n}_of`;
    const path = below(at, name);
    if (!kept.has(path)) {
      added.push({ name, path });
      members.push([name, "as it is"]);
    }
    return Object.fromEntries(members);
  };
  return { body: grown(body, ""), added };
}

const below = (at: string, name: string): string => (at === "" ? name : `${at}.${name}`);

const envelopes = new Envelopes("a secret of this test");

/** What was written of a request, or the field that it was refused for. */
type Outcome = { text: string; declared: readonly string[] } | { refused: GatewayError };

/** @throws Error where it is neither written nor refused with a 400 */
function outcome(request: RecordedRequest, target: ProtocolName, body: unknown): Outcome {
  const { protocol: source, operation } = request;
  const spoken = SPOKEN[source] as TranslatedProtocol;
  const { stream } = body as { stream?: unknown };
  const streaming = operation.streams === "asked" ? stream === true : operation.streams;
  const received = {
    ...{ protocol: spoken, operation, streaming, text: JSON.stringify(body), caller: "" },
    headers: new HeaderList([]),
    query: new Query(""),
  };
  try {
    const to = { protocol: SPOKEN[target] as TranslatedProtocol, account: "vendor", model: "any", facts: {} };
    const asked = readRequest(received, envelopes);
    const { encoded, losses } = writeRequest(asked, to, false);
    const { support } = to.protocol.translation.request;
    const ignored = asked.uses.filter(({ feature }) => supportOf(support, feature).support === "ignored");
    // Nobody can know that a member changes nothing that nobody knows: only what it stands in may be ignored.
    const within = ignored.map(({ path }) => `${path}.`);
    return { text: encoded.body, declared: [...losses.dropped.flatMap((path) => [path, `${path}.`]), ...within] };
  } catch (error) {
    if (error instanceof GatewayError && error.status === 400) return { refused: error };
    throw error;
  }
}

/** More refusals of one request mean that nothing of it can be told. */
const ROUNDS = 40;

/**
 * The members, of those that were added everywhere, that are neither written, nor declared, nor refused; undefined for a
 * request that the target cannot be asked at all.
 */
export function vanished(request: RecordedRequest, target: ProtocolName): string[] | undefined {
  const plain = JSON.parse(request.text) as unknown;
  if ("refused" in outcome(request, target, plain)) return undefined;
  const kept = new Set<string>();
  for (let round = 0; round < ROUNDS; round++) {
    const { body, added } = withUnknown(plain, kept);
    const result = outcome(request, target, body);
    if ("text" in result) {
      const { text, declared } = result;
      const told = ({ path, name }: Added) =>
        text.includes(name) || declared.some((each) => (each.endsWith(".") ? path.startsWith(each) : path === each));
      return added.filter((each) => !told(each)).map(({ path }) => path);
    }
    // A refusal is as good as a declaration where it names the member, or what it stands in.
    const { param = "" } = result.refused;
    const named = added.filter(({ path }) => path === param || path.startsWith(`${param}.`));
    if (param === "" || named.length === 0) throw new Error(`refused for ${param}: ${result.refused.message}`);
    for (const { path } of named) kept.add(path);
  }
  throw new Error(`refused again and again: ${[...kept].join(", ")}`);
}
