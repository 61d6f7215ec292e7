import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import shapes from "../core/key-shapes.json" with { type: "json" };
import type { ConfigPath } from "./problems.ts";
import { nearest } from "./suggest.ts";
import type { Config } from "./types.ts";

/** A text with its references put in; or the variable that has no value, and why; or what is wrong with the text. */
type Revealed = { value: string } | { unset: string; why: string } | { wrong: string };

const FORMS = `write $NAME, "$\{NAME}", "$\{NAME:-default}" or $file:/path`;
const INSIDE = /\$\{([A-Za-z_]\w*)(?::-([^}]*))?\}/g;

/**
 * Puts in what `$NAME`, `${NAME}`, `${NAME:-default}` and `$file:/path` stand for. A variable that is set to nothing
 * counts as not set. Never repeats a value in what it says.
 * @param folder where relative paths of `$file:` start.
 */
export function reveal(text: string, env: NodeJS.ProcessEnv, folder: string): Revealed {
  if (text.startsWith("$file:")) return fromFile(text.slice("$file:".length), folder);
  const name = /^\$([A-Za-z_]\w*)$/.exec(text)?.[1];
  if (name !== undefined) return env[name] ? { value: env[name] } : unset(name, env);
  let missing: string | undefined;
  const value = text.replaceAll(INSIDE, (_, name: string, otherwise?: string) => {
    const found = env[name] || otherwise;
    if (found === undefined || (found === "" && otherwise === undefined)) missing ??= name;
    return found ?? "";
  });
  if (missing !== undefined) return unset(missing, env);
  if (text.startsWith("$") && value === text) return { wrong: `not a reference to a secret; ${FORMS}` };
  if (text.replaceAll(INSIDE, "").includes("${")) return { wrong: `not a reference to a secret; ${FORMS}` };
  return { value };
}

const unset = (name: string, env: NodeJS.ProcessEnv): Revealed => ({
  unset: name,
  why: `${name} is ${env[name] === undefined ? "not set" : "empty"}`,
});

/** Why a text has no value, and what to write. */
export function whyNot(found: Exclude<Revealed, { value: string }>): string {
  return "wrong" in found ? found.wrong : `${found.why}; set it, or write "\${${found.unset}:-default}"`;
}

function fromFile(path: string, folder: string): Revealed {
  const full = resolve(folder, path);
  try {
    const value = readFileSync(full, "utf8").replace(/\r?\n$/, "");
    return value === "" ? { wrong: `${full} is empty` } : { value };
  } catch (thrown) {
    const code = (thrown as NodeJS.ErrnoException).code;
    // In front of the path: what stands behind one like `…/secret:` would be taken for a secret, and masked.
    return {
      wrong:
        code === "ENOENT"
          ? `there is no file ${full}; put the secret there, or write another path behind $file:`
          : `cannot read (${code}) ${full}`,
    };
  }
}

/**
 * Every secret that the gateway shows to somebody, or keeps: nobody's words that reach a client or the log may hold one.
 * @param env where the addresses of proxies stand, which may hold a password
 */
export function secretsOf(
  { providers, envelopes, store, adminAccess, alerts }: Config,
  env: NodeJS.ProcessEnv,
): string[] {
  const secrets = [
    envelopes.key,
    store.postgres?.password,
    alerts?.webhook.href,
    alerts && pathOf(alerts.webhook),
    adminAccess.oidc?.client_secret,
    ...providers.flatMap(({ credentials }) => credentials.map(({ secret }) => secret)),
  ];
  const { password = "" } = URL.parse(store.limits) ?? {};
  if (password !== "") secrets.push(password, unescaped(password));
  for (const name of ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"]) {
    const { username = "", password = "" } = URL.parse(addressOf(env[name] ?? "")) ?? {};
    if (password === "") continue;
    const plain = unescaped(password);
    secrets.push(password, plain, Buffer.from(`${unescaped(username)}:${plain}`).toString("base64"));
  }
  return secrets.filter((secret) => secret !== undefined);
}

/** All behind the host, where whoever posts shows that they may. */
const pathOf = ({ pathname, search }: URL): string => `${pathname}${search}`;

/** The scheme of a proxy may be left out. */
const addressOf = (text: string): string => (text.includes("://") ? text : `http://${text}`);

function unescaped(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Fewer different characters are a pattern, and no secret. */
const VARIETY = 5;
/** What stands in examples where a secret is to be put in, and what people type before they have one. */
const PLACEHOLDER =
  /^[^A-Za-z]*(?:(?:test|change|me|secret|pass|word|admin|token|api|key|default|example|sample|dummy|none|null|undefined|todo|qwerty|letmein)[\W_]*\d{0,4})+$|\.{3}|…|\*{3}|x{6}|^<.*>$|change-?me|placeholder|(?:your|my|insert|replace)[-_ ]?(?:own|api|key|secret|token|credential)|_here$/i;
/** Digits or letters in their order, and nothing else. */
const SEQUENCE = /^(?:0?1234567890?)+$|^(?:abcdefghijklmnopqrstuvwxyz)+$/i;

/** Why anybody could guess a secret; undefined where nobody can. @param shortest characters that it must have */
export function weakness(secret: string, shortest: number): string | undefined {
  if (secret.length < shortest) return `shorter than ${shortest} characters`;
  if (PLACEHOLDER.test(secret) || SEQUENCE.test(secret)) return "a placeholder";
  return new Set(secret).size < VARIETY ? `made of fewer than ${VARIETY} different characters` : undefined;
}

const SECRET_NAME = /^key$|^viewer$|^webhook$|authorization$|credential|secret|passw|token$|api_?key/i;
/** Sections that hold no secret in a field with an innocent name. */
const OPEN = new Set(
  "listen admin timeouts models plugins chains paths limits body overload drain linger warm_up pages workers log retry health timezone trust cors".split(
    " ",
  ),
);
/** Fields of the other sections that hold none either. Everything else there is masked: it may be a misspelt credential. */
const HARMLESS = new Set(
  "url header speaks protocol forward idempotency health warm concurrency timeouts connect first_byte idle total hash models paths addresses group owner rpm tpm budget amount soft expires ledger journal limits shared vendor".split(
    " ",
  ),
);

/** Under a name that says nothing of secrets, shorter texts and plain addresses are shown. */
const SHORTEST = 12;
const ADDRESS = /^https?:\/\/[^@?#]*$/;
/** What addresses with a password stand under, perhaps with a slip in their scheme. */
const ADDRESSED: ReadonlySet<string> = new Set(["url", "ledger", "limits", "journal"]);
/** Where limits and rows are kept, as it is written; whatever else stands there may be a password, with a slip before it. */
const STORE = /^(?:memory|(?:sqlite:)?[\w./~-]+|[a-z]+:\/\/[^\s@]*)$/i;

/** Names of groups, one list under the name of a secret; and what people call their keys by. */
const isRole = ([section, , name]: ConfigPath): boolean => section === "admin" && name === "roles";
const isTag = ([section, , name]: ConfigPath): boolean => section === "keys" && name === "tags";

/** Where a gateway or its admin side listens. */
const LISTENS = /^(?:unix:|[\w.*[\]:-]*:\d+$)/;

/** Whether that section is `alerts`, also where it is misspelt. */
const isAlerts = (section: string): boolean =>
  section === "alerts" || (!OPEN.has(section) && nearest(section, ["alerts"]) !== undefined);

/** What is put one level too high: the address of `alerts: { webhook }`, a token of `admin`; or under another name. */
const isMisplaced = (path: ConfigPath, value: string): boolean =>
  value.length >= SHORTEST &&
  (isAlerts(String(path[0])) ||
    (path[0] === "admin" && (path.length === 1 ? !LISTENS.test(value) : SEVERAL.test(String(path[1])))));

/** Under these names there is one each. */
const SEVERAL = /^(?:tokens|viewers)$/i;

/** Whether a text may be an address with a user and a password. */
function mayHoldUser(text: string): boolean {
  const scheme = text.indexOf("://");
  return scheme >= 0 && text.includes("@", scheme);
}

/** Whether a place is that of a secret, whatever stands there. */
export const holdsSecret = (path: ConfigPath): boolean =>
  !isRole(path) &&
  // Above that stand names that people gave, of a model or a key, whatever they sound like.
  path.length >= (path[0] === "admin" || path[0] === "envelopes" ? 2 : 3) &&
  SECRET_NAME.test(String(path.findLast((step) => typeof step === "string") ?? ""));

/** What people call things by: letters, and no digits unless it is short. */
const LONGEST_NAME = 20;

/**
 * Whether the name of a key of gateway.yaml is a secret that stands in the name's place.
 * @param key what stands as its key, if anything does: a text in the place of its settings, or the one below "key"
 */
export function isKeyAsName(name: string, key: string | undefined): boolean {
  if (name.length < SHORTEST || (name.length < LONGEST_NAME && !/\d/.test(name)) || /\s/.test(name)) return false;
  if (weakness(name, SHORTEST) !== undefined) return false;
  const isKey = key !== undefined && (isReference(key) || weakness(key, LONGEST_NAME) === undefined);
  return !isKey || /[^\w.-]/.test(name);
}

/** Whether a value at this place must never be shown. */
export function isSecret(path: ConfigPath, value: string): boolean {
  const name = isRole(path) ? "roles" : path.findLast((step) => typeof step === "string");
  if (typeof name !== "string") return value.length >= SHORTEST;
  // Whatever stands before the last @ of an address may be a password, also where it is written in a wrong way.
  if (SECRET_NAME.test(name) || mayHoldUser(value) || isMisplaced(path, value)) return true;
  if (ADDRESSED.has(name) && value.includes("@")) return true;
  if (path[0] === "store" && path.length === 2 && !STORE.test(value)) return true;
  if (value.length < SHORTEST || ADDRESS.test(value) || OPEN.has(path[0] as string) || isTag(path)) return false;
  const meant = nearest(name, [...HARMLESS, "credential", "key"]);
  // Names of headers: with a value it is none.
  if (meant === "forward" || meant === "header") return !/^[\w*.-]+$/.test(value);
  return meant === undefined || !HARMLESS.has(meant);
}

/** A shorter text opens nothing anywhere. */
const SHORTEST_WRITTEN = 8;
/** User and password of an address, and what whoever posts to a webhook knows. */
const [PASSWORD, LONG_STEP] = [/:\/\/[^\s/@]*:[^\s/@]+@/, /[\w-]{16,}/];

/** Whether what stands at this place is, without a doubt, a secret itself, where a reference could name it. */
export function isWrittenSecret(path: ConfigPath, value: string): boolean {
  // What a reference stands for is not written here; its default is.
  const written = value.replaceAll(INSIDE, (_, _name, otherwise = "") => otherwise);
  if (isPlain(written)) return false;
  if (PASSWORD.test(written)) return true;
  if (path[0] === "alerts") return path.at(-1) === "webhook" && LONG_STEP.test(URL.parse(written)?.pathname ?? "");
  return holdsSecret(path) && written.length >= SHORTEST_WRITTEN;
}

/** What every plugin's entry may say; the rest are its own options. No secret stands in these. */
export const COMMON: ReadonlySet<string> = new Set(["from", "deadline"]);

/** Texts that tell nothing, whose they are: switches, and numbers with or without a unit, or as money. */
const SWITCH = /^(?:on|off|yes|no|true|false|null|~)?$/i;
const NUMBER =
  /^[-+]?\$?\d[\d_]{0,14}(?:\.\d{1,9})?(?:e[-+]?\d{1,2}|ms|[smhdw%kKMG]|[KMG]i?B|B)?(?:\/(?:hour|day|week|month))?$/;

/** The words that the schema of a plugin's option at a place has for it. */
export type OptionWords = (path: ConfigPath) => readonly string[];

/**
 * Whether a value is a text among a plugin's options, of which nobody but the plugin knows whether it is a secret.
 * @param words the option's own, which may be shown, misspelt too
 */
export function isOptionText(path: ConfigPath, value: string, words: readonly string[] = []): boolean {
  const [section, , name] = path;
  if (path.length < 2 || !isPlugins(String(section))) return false;
  if (path.length === 3 && COMMON.has(String(name))) return false;
  return !isPlain(value) && nearest(value, words) === undefined;
}

/** Where something lies, which who cannot find it must know. */
const PATH_OF_FILE = /^(?:~|\.{0,2})\/|^[a-z][a-z0-9+.-]*:\/\/[^/@?#]*\/?$/i;

/**
 * Whether what a plugin throws may not repeat a text among its options.
 * @param path below its name
 */
export function isUntoldOption(path: ConfigPath, value: string): boolean {
  if (isPlain(value)) return false;
  if (path.some((step) => typeof step === "string" && SECRET_NAME.test(step)) || mayHoldUser(value)) return true;
  return value.length >= SHORTEST && !PATH_OF_FILE.test(value);
}

/** Whether that section is `plugins`, also where it is misspelt, or made for aliases (`x-plugins`). */
export const isPlugins = (section: string): boolean =>
  section === "plugins" || (!OPEN.has(section) && nearest(section, ["plugins"]) !== undefined);

/** Whether a text is a reference, a number or a switch. */
export const isPlain = (text: string): boolean => isReference(text) || SWITCH.test(text) || NUMBER.test(text);

/** Whether a text only names where a secret is kept. */
const isReference = (text: string): boolean => /^\$\w+$|^\$\{\w+(?::-)?\}$|^\$file:/.test(text);

/** The secret in a scalar's source text, without its quotes; empty for a mere reference to one. */
export function secretIn(source: string): string {
  const text = source.replaceAll(/^["']|["']$/g, "");
  return isReference(text) ? "" : text.replace(/^\$\{\w+:-/, "");
}

/** Keys by their shape; users and passwords of addresses are looked for by themselves, but for the words in our own advice. */
const KEYS = shapes.map(({ shape }) => shape).filter((shape) => !shape.startsWith("(?<=://)"));
// What is looked for before a place is bounded: lines may be long.
/** What is a secret wherever it stands: a key by its shape, and where whoever knows an address of a webhook may post. */
const ANYWHERE = [
  new RegExp(`(?<![A-Za-z0-9])(?:${KEYS.join("|")})`, "gi"),
  /(?<=https?:\/\/(?=[^\s"'<>]{0,400}hook)[^\s"'<>/]{1,255}\/)[^\s"'<>,}\]]+/gi,
];

/** Places in any text that may hold a secret by the look of it. */
const LOOKS = [
  ...ANYWHERE,
  /(?<=:\/\/)(?!USER:PASSWORD@)[^\s/@]+(?=@)/g, // user and password of an address, but for the words in our own advice
  /(?<=[:/])(?!USER:PASSWORD@)[^\s/@:"']{0,200}:[^\s/@"']+(?=@)/g, // the same behind another slip than in the scheme's slashes
  /(?<=:\/\/[^\s?#"']{0,400}[?#])[^\s"',}\]]+/g, // query of an address
  /(?<=\$\{\w+:-)(?!default\})[^}\s"']+/g, // default of a reference, but for the word in our own advice
  /(?<=(?:\bkey|credential|secret|password|token|viewer|webhook|api_?key)["']?[ \t]{0,40}:[ \t]{0,40}["']?)[^\s"'$*&{}[\],][^\s"',}\]]*(?:\r?\n[ \t]{0,40}[\w.+/=-]{8,}(?![\w.+/=-]*["']?[ \t]{0,40}:))?/gi, // name and colon; perhaps wrapped
  /(?<=(?:\bkey|credential|secret|password|token|viewer|webhook|api_?key)["']?[ \t]{0,40}:[ \t]{0,40}")[^"\r\n]+(?=")/gi, // the same between quotes, with spaces
  /(?<=(?:\bkey|credential|secret|password|token|viewer|webhook|api_?key)["']?[ \t]{0,40}:[ \t]{0,40}')[^'\r\n]+(?=')/gi,
  /(?<=authorization["']?[ \t]{0,40}:[ \t]{0,40}["']?)(?:(?:basic|bearer)[ \t]+)?[^\s"'$*&{}[\],][^\s"',}\]]*/gi, // with its scheme
  // Any of a list. That a word begins here is asked first: what stands before it is a line at most.
  /(?<![\w$.+/=-])(?=[\w.+/=-]{8})(?<=credentials?["']?[ \t]{0,40}:[ \t]{0,40}\[[^\]\n]{0,2000}?)[\w.+/=-]+/gi,
  // The same with a slip before it, but no variable's name, and not what stands behind PASSWORD@ in our own advice.
  /(?<=(?:\bkey|credential|secret|password|token|viewer|webhook|api_?key)[^\w$]{0,3})(?!(?-i:(?<=[A-Z])_[A-Z0-9_]+(?![\w.+/=-])))(?!(?-i:(?<=:\/\/USER:PASSWORD@)HOST\/DATABASE(?![\w.+/=-])))[\w.+/=-]{12,}/gi,
];

/** Every part of a text that may be a secret by the look of it. */
export function secretsByLook(text: string): string[] {
  const found = new Set(LOOKS.flatMap((look) => text.match(look) ?? []));
  return [...found].filter((each) => !isReference(each));
}

/** A text without what is a secret wherever it stands. */
export const withoutKeys = (text: string): string =>
  ANYWHERE.reduce((clean, look) => clean.replaceAll(look, stars), text);

/** As many stars as the text has characters; spaces and line ends stay. */
export const stars = (text: string): string => text.replaceAll(/\S/g, "*");

/** A shorter text may stand in a line for something else. */
const SHORTEST_TO_FIND = 8;

/** As a user's name or a password such a word tells nothing where an address begins with it. */
const SCHEME = /^postgres(?:ql)?$/;

/** A text with stars for every secret in it, as long as before. */
export function hide(text: string, secrets: Iterable<string>): string {
  let shown = text;
  // Longest first: a secret may be a part of another.
  for (const secret of [...secrets].sort((a, b) => b.length - a.length))
    if (secret.length >= SHORTEST_TO_FIND)
      shown = SCHEME.test(secret)
        ? shown.replaceAll(new RegExp(`${secret}(?!(?:ql)?://)`, "g"), stars)
        : shown.replaceAll(secret, stars);
  return LOOKS.reduce(
    (text, look) => text.replaceAll(look, (found) => (isReference(found) ? found : stars(found))),
    shown,
  );
}
