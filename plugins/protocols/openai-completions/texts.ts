import { asCount, asList, asObject, type Protocol, type TextPlace } from "model-gateway/protocol";

/** Positions of human text in requests, complete responses and chunks, which have the same form. */
export const texts: NonNullable<Protocol["texts"]> = {
  request: requestTexts,
  response: responseTexts,
  names: {
    containers: ["prompt"],
    members: ["suffix"],
  },
};

function* requestTexts(body: unknown): Generator<TextPlace> {
  const { prompt, suffix } = asObject(body) ?? {};
  if (typeof prompt === "string") yield { path: ["prompt"], kind: "user" };
  for (const [n, item] of asList(prompt).entries())
    if (typeof item === "string") yield { path: ["prompt", n], kind: "user" };
  if (typeof suffix === "string") yield { path: ["suffix"], kind: "user" };
}

function* responseTexts(json: unknown): Generator<TextPlace> {
  for (const [i, choice] of asList(asObject(json)?.["choices"]).entries()) {
    const { text, index } = asObject(choice) ?? {};
    if (typeof text === "string")
      yield { path: ["choices", i, "text"], kind: "assistant", piece: `${asCount(index) ?? i} text` };
  }
}
