import { asList, asObject, type Protocol, type TextPlace } from "model-gateway/protocol";

/** Positions of human text: the prompt, and the vendor's revision of it. */
export const texts: NonNullable<Protocol["texts"]> = {
  *request(body): Generator<TextPlace> {
    if (typeof asObject(body)?.["prompt"] === "string") yield { path: ["prompt"], kind: "user" };
  },

  *response(json): Generator<TextPlace> {
    const { revised_prompt: revised, data } = asObject(json) ?? {};
    if (typeof revised === "string") yield { path: ["revised_prompt"], kind: "assistant" };
    for (const [i, image] of asList(data).entries())
      if (typeof asObject(image)?.["revised_prompt"] === "string")
        yield { path: ["data", i, "revised_prompt"], kind: "assistant" };
  },

  names: { containers: [], members: ["prompt"] },
};
