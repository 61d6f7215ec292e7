import shapes from "../core/key-shapes.json" with { type: "json" };
import { decodeOrKeep } from "../wire/query.ts";
import type { ConfigPath } from "./problems.ts";
import { isReference, writtenPart } from "./references.ts";
import { nearest } from "./suggest.ts";
import type { Config } from "./types.ts";

/**
 * Returns every secret that the gateway sends elsewhere, or stores: foreign texts for a client or the log may contain one.
 * @param env the environment with proxy URLs, which may contain a password
 */
export function configSecrets(
  { providers, envelopes, store, adminAccess, alerts }: Config,
  env: NodeJS.ProcessEnv,
): string[] {
  const secrets = [
    envelopes.key,
    store.postgres?.password,
    alerts?.webhook.href,
    alerts && pathAndQuery(alerts.webhook),
    adminAccess.oidc?.client_secret,
    ...providers.flatMap(({ credentials }) => credentials.map(({ secret }) => secret)),
  ];
  const { password = "" } = URL.parse(store.limits) ?? {};
  if (password !== "") secrets.push(password, decodeOrKeep(password));
  for (const name of ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"]) {
    const { username = "", password = "" } = URL.parse(withScheme(env[name] ?? "")) ?? {};
    if (password === "") continue;
    const plain = decodeOrKeep(password);
    secrets.push(password, plain, Buffer.from(`${decodeOrKeep(username)}:${plain}`).toString("base64"));
  }
  return secrets.filter((secret) => secret !== undefined);
}

/** Returns everything after the host, which authorizes the sender. */
const pathAndQuery = ({ pathname, search }: URL): string => `${pathname}${search}`;

/** Adds a scheme to a proxy address without one. */
const withScheme = (text: string): string => (text.includes("://") ? text : `http://${text}`);

/** A text with fewer different characters is a pattern and no secret. */
const MIN_DISTINCT = 5;
/** Placeholders of examples, and texts that people type before they have a secret. */
const PLACEHOLDER =
  /^[^A-Za-z]*(?:(?:test|change|me|secret|pass|word|admin|token|api|key|default|example|sample|dummy|none|null|undefined|todo|qwerty|letmein)[\W_]*\d{0,4})+$|\.{3}|…|\*{3}|x{6}|^<.*>$|change-?me|placeholder|(?:your|my|insert|replace)[-_ ]?(?:own|api|key|secret|token|credential)|_here$/i;
/** Digits or letters in order, and nothing else. */
const SEQUENCE = /^(?:0?1234567890?)+$|^(?:abcdefghijklmnopqrstuvwxyz)+$/i;

/**
 * Returns why a secret can be guessed; undefined if it cannot.
 * @param shortest minimum number of characters
 */
export function weakness(secret: string, shortest: number): string | undefined {
  if (secret.length < shortest) return `shorter than ${shortest} characters`;
  if (PLACEHOLDER.test(secret) || SEQUENCE.test(secret)) return "a placeholder";
  return new Set(secret).size < MIN_DISTINCT ? `made of fewer than ${MIN_DISTINCT} different characters` : undefined;
}

const SECRET_NAME = /^key$|^viewer$|^webhook$|authorization$|credential|secret|passw|token$|api_?key/i;
/** Sections without secrets in fields whose name does not suggest one. */
const OPEN_SECTIONS = new Set(
  "listen admin timeouts models plugins chains paths limits body overload drain linger crash_drain warm_up pages workers log retry health timezone trust cors".split(
    " ",
  ),
);
/** Fields of the other sections without secrets. All other fields there are masked, as one may be a misspelt credential. */
const OPEN_FIELDS = new Set(
  "url header speaks protocol forward idempotency health warm concurrency timeouts connect first_byte idle total hash models paths addresses group owner rpm tpm budget amount soft expires ledger journal limits shared vendor".split(
    " ",
  ),
);

/** Characters: under a name that does not suggest a secret, shorter texts and plain URLs are shown. */
const MIN_HIDDEN_LENGTH = 12;
const ADDRESS = /^https?:\/\/[^@?#]*$/;
/** Fields of URLs with a password, perhaps with a typing error in the scheme. */
const URL_FIELDS: ReadonlySet<string> = new Set(["url", "ledger", "limits", "journal"]);
/** Values of `store` in the documented forms; anything else may be a password after a typing error. */
const STORE_VALUE =
  /^(?:memory|(?:sqlite:)?[\w./~-]+|[a-z]+:\/\/(?:\[[\da-f:.]*\]|[\w.,%-]*)(?::\d{1,5})?(?:[/?][^\s@]*)?)$/i;
/** A key's hash; anything else in its place may be the key itself. */
const HASH = /^[\da-f]{64}$/i;

/** Lists of group names under a name that suggests a secret; and labels of keys. */
const isOidcRole = ([section, , name]: ConfigPath): boolean => section === "admin" && name === "roles";
const isKeyTag = ([section, , name]: ConfigPath): boolean => section === "keys" && name === "tags";

/** An address on which the gateway or its admin side listens. */
const LISTEN_ADDRESS = /^(?:unix:|[\w.*[\]:-]*:(?:\d+|\$\{\w+(?::-\d+)?\})$)/;

/** Reports whether a section is `alerts`, possibly misspelt. */
const isAlertsSection = (section: string): boolean =>
  section === "alerts" || (!OPEN_SECTIONS.has(section) && nearest(section, ["alerts"]) !== undefined);

/**
 * Reports whether a value may be misplaced: the URL of `alerts: { webhook }` or a token of `admin`, one level too high or under
 * another name.
 */
const isMisplaced = (path: ConfigPath, value: string): boolean =>
  value.length >= MIN_HIDDEN_LENGTH &&
  (isAlertsSection(String(path[0])) ||
    (path[0] === "admin" && (path.length === 1 ? !LISTEN_ADDRESS.test(value) : PLURAL_NAMES.test(String(path[1])))));

/** Plural forms of names that take a single value. */
const PLURAL_NAMES = /^(?:tokens|viewers)$/i;

/** Reports whether a text may be a URL with user and password. */
function mayHaveUserInfo(text: string): boolean {
  const scheme = text.indexOf("://");
  return scheme >= 0 && text.includes("@", scheme);
}

/** Reports whether a path is that of a secret, whatever its value. */
export const isSecretPath = (path: ConfigPath): boolean =>
  !isOidcRole(path) &&
  // Shorter paths end in a name chosen by the operator, of a model or a key, whatever it suggests.
  path.length >= (path[0] === "admin" || path[0] === "envelopes" ? 2 : 3) &&
  SECRET_NAME.test(String(path.findLast((step) => typeof step === "string") ?? ""));

/** Characters: a shorter text without digits counts as a name. */
const MIN_LENGTH_WITHOUT_DIGITS = 20;

/**
 * Reports whether the name of a key in gateway.yaml is itself a secret, put in the wrong place.
 * @param key the text found as its key, if any: in place of its settings, or in the field "key"
 */
export function isKeyAsName(name: string, key: string | undefined): boolean {
  if (
    name.length < MIN_HIDDEN_LENGTH ||
    (name.length < MIN_LENGTH_WITHOUT_DIGITS && !/\d/.test(name)) ||
    /\s/.test(name)
  )
    return false;
  if (weakness(name, MIN_HIDDEN_LENGTH) !== undefined) return false;
  const isKey = key !== undefined && (isReference(key) || weakness(key, MIN_LENGTH_WITHOUT_DIGITS) === undefined);
  return !isKey || /[^\w.-]/.test(name);
}

/** Reports whether a value at this path must never be shown. */
export function isSecret(path: ConfigPath, value: string): boolean {
  const name = isOidcRole(path) ? "roles" : path.findLast((step) => typeof step === "string");
  if (typeof name !== "string") return value.length >= MIN_HIDDEN_LENGTH;
  // Everything before the last @ of a URL may be a password, even if the URL is malformed.
  if (SECRET_NAME.test(name) || mayHaveUserInfo(value) || isMisplaced(path, value)) return true;
  if (URL_FIELDS.has(name) && value.includes("@")) return true;
  if (path[0] === "store" && path.length === 2 && !STORE_VALUE.test(value)) return true;
  if (path[0] === "keys" && name === "hash" && !HASH.test(value)) return true;
  if (value.length < MIN_HIDDEN_LENGTH || ADDRESS.test(value) || OPEN_SECTIONS.has(path[0] as string) || isKeyTag(path))
    return false;
  const meant = nearest(name, [...OPEN_FIELDS, "credential", "key"]);
  // Fields of header names: any other character means that a value was added.
  if (meant === "forward" || meant === "header") return !/^[\w*.-]+$/.test(value);
  return meant === undefined || !OPEN_FIELDS.has(meant);
}

/** Characters: a shorter text is no real secret. */
const MIN_SECRET_LENGTH = 8;
/** User and password of a URL, and the secret part of a webhook URL. */
const [PASSWORD, LONG_STEP] = [/:\/\/[^\s/@]*:[^\s/@]+@/, /[\w-]{16,}/];

/** Reports whether the value at this path certainly is a literal secret, which a reference could replace. */
export function isLiteralSecret(path: ConfigPath, value: string): boolean {
  const written = writtenPart(value);
  if (isNonSecret(written)) return false;
  if (PASSWORD.test(written)) return true;
  // A reference usually stands for the secret part of its URL.
  if (path[0] === "alerts")
    return path.at(-1) === "webhook" && (written === value || LONG_STEP.test(URL.parse(written)?.pathname ?? ""));
  return isSecretPath(path) && written.length >= MIN_SECRET_LENGTH;
}

/** Fields that every plugin's entry may have; the rest are its own options. They contain no secret. */
export const COMMON_OPTIONS: ReadonlySet<string> = new Set(["from", "deadline"]);

/** Texts that reveal nothing: switches, and numbers with or without a unit, or as money. */
const SWITCH = /^(?:on|off|yes|no|true|false|null|~)?$/i;
const NUMBER =
  /^[-+]?\$?\d[\d_]{0,14}(?:\.\d{1,9})?(?:e[-+]?\d{1,2}|ms|[smhdw%kKMG]|[KMG]i?B|B)?(?:\/(?:hour|day|week|month))?$/;

/** Returns the words that the schema of a plugin's option at a path enumerates. */
export type EnumeratedValues = (path: ConfigPath) => readonly string[];

/**
 * Reports whether a value is a text in a plugin's options; only the plugin knows whether that is a secret.
 * @param words the enumerated values of the option, which may be shown, also misspelt
 */
export function isOptionText(path: ConfigPath, value: string, words: readonly string[] = []): boolean {
  const [section, , name] = path;
  if (path.length < 2 || !isPluginsSection(String(section))) return false;
  if (path.length === 3 && COMMON_OPTIONS.has(String(name))) return false;
  return !isNonSecret(value) && nearest(value, words) === undefined;
}

/** The location of a file or server, which is needed to find the cause of a failure. */
const PATH_OF_FILE = /^(?:~|\.{0,2})\/|^[a-z][a-z0-9+.-]*:\/\/[^/@?#]*\/?$/i;

/**
 * Reports whether a plugin's error message must not repeat a text of its options.
 * @param path the path below the plugin's name
 */
export function isOptionSecret(path: ConfigPath, value: string): boolean {
  if (isNonSecret(value)) return false;
  if (path.some((step) => typeof step === "string" && SECRET_NAME.test(step)) || mayHaveUserInfo(value)) return true;
  return value.length >= MIN_HIDDEN_LENGTH && !PATH_OF_FILE.test(value);
}

/** Reports whether a section is `plugins`, possibly misspelt, or defines aliases for it (`x-plugins`). */
export const isPluginsSection = (section: string): boolean =>
  section === "plugins" || (!OPEN_SECTIONS.has(section) && nearest(section, ["plugins"]) !== undefined);

/** Reports whether a text is a reference, a number or a switch. */
export const isNonSecret = (text: string): boolean => isReference(text) || SWITCH.test(text) || NUMBER.test(text);

/** Returns the secret in a scalar's source text, without its quotes; empty for a mere reference. */
export function literalSecret(source: string): string {
  const text = source.replaceAll(/^["']|["']$/g, "");
  return isReference(text) ? "" : text.replace(/^\$\{\w+:-/, "");
}

/** Shapes of keys; URLs' users and passwords have patterns of their own, which exclude the words of our own advice. */
const KEY_SHAPES = shapes.map(({ shape }) => shape).filter((shape) => !shape.startsWith("(?<=://)"));
/**
 * Patterns for secrets that are recognizable anywhere: keys by their shape, and the secret part of webhook URLs. Lookbehinds are
 * bounded, as lines may be long.
 */
const KEY_PATTERNS = [
  new RegExp(`(?<![A-Za-z0-9])(?:${KEY_SHAPES.join("|")})`, "gi"),
  /(?<=https?:\/\/(?=[^\s"'<>]{0,400}hook)[^\s"'<>/]{1,255}\/)[^\s"'<>,}\]]+/gi,
];

/** Patterns for places in any text that may contain a secret. */
const SECRET_PATTERNS = [
  ...KEY_PATTERNS,
  /(?<=:\/\/)(?!USER:PASSWORD@)[^\s/@]+(?=@)/g, // user and password of an address, but for the words in our own advice
  /(?<=[:/])(?!USER:PASSWORD@)[^\s/@:"']{0,200}:[^\s/@"']+(?=@)/g, // the same behind another slip than in the scheme's slashes
  /(?<=:\/\/[^\s?#"']{0,400}[?#])(?!cacert=FILE(?![^\s,]))[^\s"',}\]]+/g, // query of an address, but for the one in our own advice
  /(?<=\$\{\w+:-)(?!default\})[^}\s"']+/g, // default of a reference, but for the word in our own advice
  /(?<=(?:\bkey|credential|secret|password|token|viewer|webhook|api_?key)["']?[ \t]{0,40}:[ \t]{0,40}["']?)(?!(?<=\$\{\w{1,200}:)-default\})[^\s"'$*&{}[\],][^\s"',}\]]*(?:\r?\n[ \t]{0,40}[\w.+/=-]{8,}(?![\w.+/=-]*["']?[ \t]{0,40}:))?/gi, // name and colon; perhaps wrapped; but for a reference in our own advice
  /(?<=(?:\bkey|credential|secret|password|token|viewer|webhook|api_?key)["']?[ \t]{0,40}:[ \t]{0,40}")[^"\r\n]+(?=")/gi, // the same between quotes, with spaces
  /(?<=(?:\bkey|credential|secret|password|token|viewer|webhook|api_?key)["']?[ \t]{0,40}:[ \t]{0,40}')[^'\r\n]+(?=')/gi,
  /(?<=authorization["']?[ \t]{0,40}:[ \t]{0,40}["']?)(?:(?:basic|bearer)[ \t]+)?[^\s"'$*&{}[\],][^\s"',}\]]*/gi, // with its scheme
  // Any entry of a list, but for the path of a reference. The word boundary is checked first, which bounds the lookbehind to one line.
  /(?<![\w$.+/=-])(?=[\w.+/=-]{8})(?<!\$file:[^\s"',;}\]]{0,400})(?<=credentials?["']?[ \t]{0,40}:[ \t]{0,40}\[[^\]\n]{0,2000}?)[\w.+/=-]+/gi,
  // The same after a typing error, but not a variable's name, nor a reference's path, whose folders are often called secrets, nor
  // the text after PASSWORD@ in our own advice, nor PostgreSQL's word about a wrong password.
  /(?<=(?:\bkey|credential|secret|password|token|viewer|webhook|api_?key)[^\w$]{0,3})(?<!\$file:[^\s"',;}\]]{0,400})(?!(?-i:(?<=[A-Z])_[A-Z0-9_]+(?![\w.+/=-])))(?!(?-i:(?<=:\/\/USER:PASSWORD@)HOST\/DATABASE(?![\w.+/=-])))(?!(?-i:(?<=password )authentication failed for user "))[\w.+/=-]{12,}/gi,
];

/** Returns every part of a text that looks like a secret. */
export function findSecrets(text: string): string[] {
  const found = new Set(SECRET_PATTERNS.flatMap((look) => text.match(look) ?? []));
  return [...found].filter((each) => !isReference(each));
}

/** Returns a text without the secrets that are recognizable anywhere. */
export const starKeys = (text: string): string =>
  KEY_PATTERNS.reduce((clean, look) => clean.replaceAll(look, toStars), text);

/** Returns as many stars as the text has characters; white space is kept. */
export const toStars = (text: string): string => text.replaceAll(/\S/g, "*");

/** Characters: a shorter text may occur in a line with another meaning. */
const MIN_SEARCHED_LENGTH = 8;

/** As a user name or password such a word reveals nothing where it is the scheme of a URL. */
const SCHEME = /^postgres(?:ql)?$/;

/** Returns a text of the same length with stars for every secret in it. */
export function starSecrets(text: string, secrets: Iterable<string>): string {
  let shown = text;
  // Longest first: a secret may be a part of another.
  for (const secret of [...secrets].sort((a, b) => b.length - a.length))
    if (secret.length >= MIN_SEARCHED_LENGTH)
      shown = SCHEME.test(secret)
        ? shown.replaceAll(new RegExp(`${secret}(?!(?:ql)?://)`, "g"), toStars)
        : shown.replaceAll(secret, toStars);
  return SECRET_PATTERNS.reduce(
    (text, look) => text.replaceAll(look, (found) => (isReference(found) ? found : toStars(found))),
    shown,
  );
}
