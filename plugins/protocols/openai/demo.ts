import { type DemoAnswer, type DemoRequest, demoAnswer, type Protocol } from "model-gateway/protocol";

/** Returns the demo's response with a picture, where responses can hold one; undefined where the engine's script applies. */
export const demoPicture = (protocol: Protocol, request: DemoRequest): DemoAnswer | undefined =>
  request.model === "image" && request.operation.task === "generate"
    ? demoAnswer(protocol, request, { picture: true })
    : undefined;
