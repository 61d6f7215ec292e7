import type { Protocol, TextKind, TextPlace } from "../../src/core/protocol.ts";

/** A text of a minimal protocol. */
export interface TinyText {
  k: TextKind;
  /** The text. */
  d: string;
  /** The name of the text that it is a piece of. */
  p?: string;
  /** Whether it is JSON text. */
  j?: true;
  /** The text that other members may repeat, and its member. */
  a?: readonly [of: string, member: string];
}

function* places(json: unknown): Generator<TextPlace> {
  const { t = [] } = json as { t?: TinyText[] };
  for (const [i, { k, p, j, a }] of t.entries())
    yield {
      path: ["t", i, "d"],
      kind: k,
      ...(p === undefined ? {} : { piece: p }),
      ...(j ? { json: j } : {}),
      ...(a ? { alternative: { of: a[0], member: a[1] } } : {}),
    };
}

/** A protocol that declares the places of its texts: `{"t":[…]}`, in requests, responses and frames. */
export const SPEAKS_TEXT = { name: "tiny", texts: { request: places, response: places } } as unknown as Protocol &
  Required<Pick<Protocol, "texts">>;
