import { asList, asObject, type Protocol, type TextPlace } from "model-gateway/protocol";

/** Positions of human text: the input. Lists of tokens are not text, and responses have none. */
export const texts: NonNullable<Protocol["texts"]> = {
  *request(body): Generator<TextPlace> {
    const input = asObject(body)?.["input"];
    if (typeof input === "string") yield { path: ["input"], kind: "user" };
    for (const [i, text] of asList(input).entries())
      if (typeof text === "string") yield { path: ["input", i], kind: "user" };
  },

  response: () => [],
  names: { containers: [], members: ["input"] },
};
