import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { ownProperty } from "../wire/values.ts";

/** A text with its references resolved; or the variable without a value, and why; or the error in the text. */
type ResolvedText = { value: string } | { unset: string; why: string } | { wrong: string };

const FORMS = `write $NAME, "$\{NAME}", "$\{NAME:-default}" or $file:/path`;
const REFERENCES = /\$\{([A-Za-z_]\w*)(?::-([^}]*))?\}/g;

/**
 * Resolves `$NAME`, `${NAME}`, `${NAME:-default}` and `$file:/path`. An empty variable counts as not set. Messages never repeat a
 * value.
 * @param folder the base of relative paths in `$file:`
 */
export function resolveReferences(text: string, env: NodeJS.ProcessEnv, folder: string): ResolvedText {
  if (text.startsWith("$file:")) return readSecretFile(text.slice("$file:".length), folder);
  const name = /^\$([A-Za-z_]\w*)$/.exec(text)?.[1];
  const known = ownProperty(env, name);
  if (name !== undefined) return known ? { value: known } : unsetVariable(name, env);
  let missing: string | undefined;
  const value = text.replaceAll(REFERENCES, (_, name: string, otherwise?: string) => {
    const found = ownProperty(env, name) || otherwise;
    if (found === undefined || (found === "" && otherwise === undefined)) missing ??= name;
    return found ?? "";
  });
  if (missing !== undefined) return unsetVariable(missing, env);
  if (text.startsWith("$") && value === text) return { wrong: `not a reference to a secret; ${FORMS}` };
  if (text.replaceAll(REFERENCES, "").includes("${")) return { wrong: `not a reference to a secret; ${FORMS}` };
  return { value };
}

/** References as other programs write them, and one behind another word. */
const FOREIGN_REFERENCE =
  /^(?:os\.environ[/[]|process\.env\.|vault:|env[.:])\S+$|^\$?\{\{.*\}\}$|^%[A-Za-z_]\w*%$|\s\$[A-Za-z_]\w*$/;

/** Returns why a text is not the secret itself, but where another program would find it; undefined for any other text. */
export const foreignReference = (text: string): string | undefined =>
  FOREIGN_REFERENCE.test(text) ? `the gateway would take this text itself for the secret; ${FORMS}` : undefined;

const unsetVariable = (name: string, env: NodeJS.ProcessEnv): ResolvedText => ({
  unset: name,
  why: `${name} is ${ownProperty(env, name) === undefined ? "not set" : "empty"}`,
});

/** Returns why a text has no value, and what to write. */
export function unresolvedReason(found: Exclude<ResolvedText, { value: string }>): string {
  return "wrong" in found ? found.wrong : `${found.why}; set it, or write "\${${found.unset}:-default}"`;
}

function readSecretFile(path: string, folder: string): ResolvedText {
  const full = resolve(folder, path);
  try {
    const value = readFileSync(full, "utf8").replace(/\r?\n$/, "");
    return value === "" ? { wrong: `the file of $file:${full} is empty` } : { value };
  } catch (thrown) {
    const code = (thrown as NodeJS.ErrnoException).code;
    // Written as a reference: any other path below a folder like /run/secrets would be taken for a secret, and masked.
    return {
      wrong:
        code === "ENOENT"
          ? `there is no file at $file:${full}; put the secret there, or write another path`
          : `cannot read (${code}) $file:${full}`,
    };
  }
}

/** Reports whether a text only names where a secret is stored. */
export const isReference = (text: string): boolean => /^\$\w+$|^\$\{\w+(?::-)?\}$|^\$file:/.test(text);

/** Returns what is written in a text itself: of its references only the defaults. */
export const writtenPart = (text: string): string =>
  text.replaceAll(REFERENCES, (_, _name, otherwise = "") => otherwise);
