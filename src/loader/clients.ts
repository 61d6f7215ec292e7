import { join } from "node:path";
import { z } from "zod";
import { PLUGINS_FOLDER } from "./discover.ts";
import { readYamlFolder } from "./yaml-folder.ts";

const nonEmpty = z.string().min(1);

/** The scheme of a program on the reader's machine: a key must not be sent to a website. */
const OWN_SCHEME = /^(?!(?:https?|wss?|ftp|file|javascript|data|blob):)[a-z][a-z0-9+.-]*:\/\/.*\{\{json\}\}/;

/** The schema of a file in `plugins/clients/`; the README there describes each member. */
const ClientFile = z.strictObject({
  name: nonEmpty,
  kind: z.enum(["agent", "app", "sdk", "command"]),
  protocol: nonEmpty,
  order: z.number().default(100),
  command: nonEmpty.optional(),
  arguments: z.array(z.string()).default([]),
  env: z.record(z.string(), z.string()).default({}),
  unset: z.array(nonEmpty).default([]),
  temporary: z.record(z.string(), z.string()).default({}),
  home: nonEmpty.optional(),
  files: z.array(z.strictObject({ path: nonEmpty, language: nonEmpty, text: nonEmpty })).default([]),
  snippets: z.array(z.strictObject({ language: nonEmpty, install: nonEmpty.optional(), text: nonEmpty })).default([]),
  link: z
    .strictObject({
      url: z.string().regex(OWN_SCHEME, { error: "a link has the program's own scheme, and {{json}}" }),
      needs_key: z.boolean().default(false),
      json: z.record(z.string(), z.json()),
    })
    .optional(),
  notes: z.array(nonEmpty).default([]),
});

/** The settings of a client for a gateway; `fillPlaceholders` inserts address, key and model into its texts. */
export type Client = z.output<typeof ClientFile> & {
  /** Its file's name without the extension: the argument of `connect`. */
  readonly id: string;
};

/** The values for placeholders in a client's texts. */
export interface ClientValues {
  /** The gateway's address, without a trailing slash. */
  readonly address: string;
  readonly key: string;
  /** The id of a model. */
  readonly model: string;
}

/**
 * Loads the known clients, sorted by order and id.
 * @throws PluginError with file and reason.
 */
export const loadClients = (folder = join(PLUGINS_FOLDER, "clients")): Client[] => readYamlFolder(folder, ClientFile);

let builtIn: readonly Client[] | undefined;

/**
 * Returns the built-in clients, which are read once: a reload does not read them again.
 * @throws PluginError with file and reason
 */
export const knownClients = (): readonly Client[] => (builtIn ??= loadClients());

/** Replaces the placeholders in a client's text. */
export const fillPlaceholders = (text: string, values: ClientValues): string =>
  text.replaceAll(/\{\{(address|key|model)\}\}/g, (_, name: keyof ClientValues) => values[name]);
