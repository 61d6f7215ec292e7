import { asList, asObject, foldCase, type SocketName } from "model-gateway/protocol";

/** The parts of a message that name anything. */
const PARTS = ["session", "response"];
/** Members that name an object by its id, and those that do where they are no plain text. */
const [IDS, AS_OBJECTS] = [
  ["file_id", "tunnel_id"],
  ["prompt", "voice"],
];
/** Members in which `model` is a word like any other. */
const UNREAD = ["tools", "metadata", "variables"];

/**
 * What `session.update` and `response.create` name: a prompt that the vendor keeps with the files of its variables, a voice, and models,
 * that of the session itself and those that write down what is heard. Some servers read names in any case.
 * [S: RealtimeSessionCreateRequest, AudioTranscription, Prompt]
 */
export function* names(message: unknown): Generator<SocketName> {
  for (const [part, value] of Object.entries(asObject(message) ?? {}))
    if (PARTS.includes(foldCase(part))) {
      yield* objects(value, part);
      yield* models(value, part);
    }
}

function* models(value: unknown, param: string): Generator<SocketName> {
  for (const [name, inner] of members(value)) {
    const at = `${param}.${name}`;
    if (foldCase(name) === "model" && typeof inner === "string") yield { kind: "model", name: inner, param: at };
    else if (!UNREAD.includes(name)) yield* models(inner, at);
  }
}

/** Prompts, of which only the session's own is no plain text, voices that a key made, files and tunnels. */
function* objects(value: unknown, param: string): Generator<SocketName> {
  for (const [name, inner] of members(value)) {
    const at = `${param}.${name}`;
    const word = foldCase(name);
    if (IDS.includes(word) && typeof inner === "string") yield { kind: "object", name: inner, param: at };
    if (AS_OBJECTS.includes(word))
      for (const object of [inner, ...asList(inner)])
        for (const [member, id] of Object.entries(asObject(object) ?? {}))
          if (foldCase(member) === "id" && typeof id === "string")
            yield { kind: "object", name: id, param: `${at}.${member}` };
    yield* objects(inner, at);
  }
}

const members = (value: unknown): [string, unknown][] =>
  typeof value === "object" && value !== null ? Object.entries(value) : [];
