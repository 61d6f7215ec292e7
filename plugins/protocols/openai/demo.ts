import { type DemoAnswer, type DemoRequest, demoAnswer, type Protocol } from "model-gateway/protocol";

/** Returns the demo response with an image, in protocols that have images; undefined if the engine's script applies. */
export const demoImage = (protocol: Protocol, request: DemoRequest): DemoAnswer | undefined =>
  request.model === "image" && request.operation.task === "generate"
    ? demoAnswer(protocol, request, { image: true })
    : undefined;
