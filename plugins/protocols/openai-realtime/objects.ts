import { asList, asObject, foldCase, type SocketName } from "model-gateway/protocol";

/** The parts of a message that can name objects or models. */
const PARTS = ["session", "response"];
/** A part that names objects only. */
const ITEM = "item";
/** Members that name an object by its id, and those that do where they are not plain text. */
const [ID_MEMBERS, OBJECT_MEMBERS] = [
  ["file_id", "tunnel_id"],
  ["prompt", "voice"],
];
/** Members in which `model` is an ordinary name. */
const UNREAD_MEMBERS = ["tools", "metadata", "variables"];

/**
 * Returns the names in `session.update` and `response.create`: a prompt stored at the vendor with the files of its variables,
 * a voice, and models, of the session itself and of transcription. Some servers match names in any case, and take a list of
 * messages in one. [S: RealtimeSessionCreateRequest, AudioTranscription, Prompt]
 */
export function namesInMessage(message: unknown): SocketName[] {
  const names: SocketName[] = [];
  for (const [i, each] of [message].flat().entries())
    for (const [part, value] of Object.entries(asObject(each) ?? {})) {
      const path = Array.isArray(message) ? [String(i), part] : [part];
      if (PARTS.includes(foldCase(part)) || foldCase(part) === ITEM)
        collectNames(value, path, foldCase(part) !== ITEM, names);
    }
  return names;
}

/** @param mayNameModels whether a model may be named here */
function collectNames(value: unknown, path: string[], mayNameModels: boolean, names: SocketName[]): void {
  if (typeof value !== "object" || value === null) return;
  for (const [name, inner] of Object.entries(value)) {
    const folded = foldCase(name);
    path.push(name);
    if (typeof inner === "string") {
      if (mayNameModels && folded === "model") names.push({ kind: "model", name: inner, path: [...path] });
      if (ID_MEMBERS.includes(folded)) names.push({ kind: "object", name: inner, path: [...path] });
    }
    if (OBJECT_MEMBERS.includes(folded))
      for (const object of [inner, ...asList(inner)]) names.push(...idsOf(object, path));
    collectNames(inner, path, mayNameModels && !UNREAD_MEMBERS.includes(name), names);
    path.pop();
  }
}

/** Returns ids of a stored prompt, where only the session's own is not plain text, or of a voice created with a key. */
function idsOf(value: unknown, path: readonly string[]): SocketName[] {
  return Object.entries(asObject(value) ?? {}).flatMap(([name, id]): SocketName[] =>
    foldCase(name) === "id" && typeof id === "string" ? [{ kind: "object", name: id, path: [...path, name] }] : [],
  );
}
