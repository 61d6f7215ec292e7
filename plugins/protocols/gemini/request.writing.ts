import type { Conversation, EncodeContext, Feature, ToolCall } from "model-gateway/protocol";

/** A request while it is written. */
export interface Writing {
  readonly conversation: Conversation;
  readonly terms: EncodeContext;
  /** Read from this protocol, with all that is needed to write the very same again. */
  readonly own: boolean;
  /** Calls by their id. */
  readonly calls: ReadonlyMap<string, { call: ToolCall; order: number }>;
  /** Calls without a signature where the vendor insists on one. */
  readonly unsigned: ReadonlySet<ToolCall>;
}

/** What only this protocol wrote on a part, a turn, a tool. */
export function nativeOf<T>(writing: Writing, { native }: { native?: unknown }): T | undefined {
  return writing.own ? (native as T | undefined) : undefined;
}

/** Where the client said a thing. */
export function pathOf({ conversation }: Writing, feature: Feature, usual: string): string {
  return conversation.uses.find((uses) => uses.feature === feature)?.path ?? usual;
}

/** Characters of a function's name after the first, which is a letter or an underscore. [S] */
const NAME_CHARACTERS = "a-zA-Z0-9_.:-";
const NAME_LONGEST = 128;

/**
 * The name under which a tool is declared and called. One in a namespace bears it in front, and one that takes free text
 * is remembered as such, so that the answer's calls come back as the client knows them.
 */
export function fittedName(
  { terms: { names } }: Writing,
  { name, namespace, custom }: { name: string; namespace?: string; custom?: boolean },
): string {
  const whole = namespace === undefined ? name : `${namespace}__${name}`;
  const start = /^[A-Za-z_]/.test(whole) ? "" : "_";
  const fitted = names.fit(`${start}${whole}`, NAME_CHARACTERS, NAME_LONGEST);
  if (start !== "" || namespace !== undefined || custom === true)
    names.mark(fitted, {
      name,
      ...(namespace === undefined ? {} : { namespace }),
      ...(custom === true ? { custom } : {}),
    });
  return fitted;
}
