import { type DemoAnswer, type DemoRequest, demoAnswer, type Protocol } from "model-gateway/protocol";

/** The demo's answer with a picture, where answers can hold one; undefined where the engine's script gives it. */
export const drawn = (protocol: Protocol, request: DemoRequest): DemoAnswer | undefined =>
  request.model === "image" && request.operation.task === "generate"
    ? demoAnswer(protocol, request, { picture: true })
    : undefined;
