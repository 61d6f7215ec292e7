import { asObject, asText, type SocketName } from "model-gateway/protocol";

/**
 * What `session.update` and `response.create` name: a prompt that the vendor keeps, and models, that of the session itself and
 * those that write down what is heard. [S: RealtimeSessionCreateRequest, AudioTranscription]
 */
export function* names(message: unknown): Generator<SocketName> {
  const event = asObject(message) ?? {};
  for (const part of ["session", "response"]) {
    const own = asObject(event[part]);
    if (!own) continue;
    const id = asText(asObject(own["prompt"])?.["id"]);
    if (id !== undefined) yield { kind: "object", name: id, param: `${part}.prompt.id` };
    yield* models(own, part);
  }
}

/** Members in which `model` is a word like any other. */
const UNREAD = ["tools", "metadata", "variables"];

function* models(value: object, param: string): Generator<SocketName> {
  for (const [name, inner] of Object.entries(value)) {
    const at = `${param}.${name}`;
    if (name === "model" && typeof inner === "string") yield { kind: "model", name: inner, param: at };
    else if (typeof inner === "object" && inner !== null && !UNREAD.includes(name)) yield* models(inner, at);
  }
}
