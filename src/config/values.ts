import { hash } from "node:crypto";
import { isIPv6 } from "node:net";
import { basename, resolve } from "node:path";
import type { Credential } from "../core/marketplace.ts";
import { ALL_ADDRESSES, LOOPBACK } from "../core/networks.ts";
import { displayUrl, parsePostgresUrl, type StoreLocation } from "../store/postgres/place.ts";
import { readOidc } from "./oidc.ts";
import { type ConfigPath, offNotice, type Report } from "./problems.ts";
import { parseRedisAddress } from "./redis-address.ts";
import { foreignReference, resolveReferences, unresolvedReason } from "./references.ts";
import { AdminSchema } from "./schema/admin.ts";
import { FileSchema } from "./schema.ts";
import { weakness } from "./secrets.ts";
import { atPath, entries, isMap, items, type YamlValue } from "./tree.ts";
import type { AdminAddress, ListenAddress, OidcSettings } from "./types.ts";

/** The secrets and addresses of the file; a value with a reported problem is missing. */
export interface ConfigValues {
  listen?: ListenAddress;
  /** Absent: off. */
  admin?: AdminAddress;
  store?: StoreLocation;
  /** `memory`, or the URL of a Redis server. */
  limits?: string;
  /** SHA-256 in hex of the tokens of the admin side. */
  tokens: { token?: string; viewer?: string; oidc?: OidcSettings };
  /** The secret that envelopes are sealed with, if the file sets it. */
  envelopes?: string;
  /** The URL for alerts. */
  webhook?: URL;
  providers: Map<string, ProviderValues>;
  keys: Map<string, { hash?: string; off?: string }>;
}

interface ProviderValues {
  url?: URL | "demo:";
  credentials?: readonly Credential[];
  /** Why it is off. */
  off?: string;
}

/** What the schema says where the file says nothing. */
const DEFAULTS = {
  listen: FileSchema.shape.listen.parse(undefined),
  admin: AdminSchema.parse({}),
  store: FileSchema.shape.store.parse(undefined),
};

/** Characters: a shorter gateway key can be guessed. */
const MIN_KEY_LENGTH = 20;
/** Characters, fewer than any vendor's: a shorter credential could not be told from ordinary words in an error message. */
const MIN_CREDENTIAL_LENGTH = 8;
const KEY_HINT = `a key has ${MIN_KEY_LENGTH} characters or more that nobody can guess: openssl rand -hex 32`;

const sameKeyMessage = (owner: string): string =>
  `the same key as ${JSON.stringify(owner)}; give each its own, or remove one`;

/** Resolves the secrets and parses the addresses of a file of any shape. No message repeats a secret. */
export class ValueReader {
  readonly values: ConfigValues = { tokens: {}, providers: new Map(), keys: new Map() };

  constructor(
    private readonly file: YamlValue,
    private readonly env: NodeJS.ProcessEnv,
    private readonly folder: string,
    private readonly report: Report,
  ) {
    this.readListeners();
    this.readStore();
    this.readEnvelopes();
    this.readAlerts();
    for (const [name, entry] of entries(atPath(file, "providers")))
      this.values.providers.set(name, this.readProvider(name, entry));
    this.readKeys();
  }

  private readListeners(): void {
    const address = parseListenAddress(this.resolveText("listen") ?? DEFAULTS.listen);
    if (typeof address === "object") this.values.listen = address;
    else this.report({ path: ["listen"], message: address });
    this.readAdmin();
    const { listen, admin } = this.values;
    if (listen && admin && "port" in admin && isSameAddress(listen, admin))
      this.report({
        path: [atPath(this.file, "admin") === undefined ? "listen" : "admin"],
        message: "listen and admin have the same address; write another port, like admin: 127.0.0.1:9090",
      });
  }

  private readAdmin(): void {
    const written = atPath(this.file, "admin");
    const path = isMap(written) ? ["admin", "listen"] : ["admin"];
    const text = this.resolveText(...path);
    if (text === "off") return;
    const address = parseAdminAddress(text ?? DEFAULTS.admin.listen, this.folder);
    if (typeof address === "string") this.report({ path, message: address });
    else if (text === undefined && written === undefined) this.values.admin = { ...address, isDefault: true };
    else this.values.admin = address;
    for (const role of ["token", "viewer"] as const) {
      const token = this.requiredSecret(["admin", role], MIN_KEY_LENGTH, "token");
      if (token !== undefined) this.values.tokens[role] = hash("sha256", token);
    }
    const { token, viewer } = this.values.tokens;
    if (token !== undefined && token === viewer)
      this.report({
        path: ["admin", "viewer"],
        message: 'the same as "token", so a viewer could change everything; write another secret',
      });
    const oidc = readOidc(this.file, {
      text: (...path) => this.resolveText(...path),
      secret: (path) => this.requiredSecret(path, 0, "secret"),
      report: this.report,
    });
    if (oidc) this.values.tokens.oidc = oidc;
    const signsIn = token ?? viewer ?? atPath(this.file, "admin", "oidc");
    if (typeof address === "object" && "host" in address && !LOOPBACK.test(address.host) && signsIn === undefined)
      this.report({
        path,
        message:
          "others can reach this address, so only /livez and /readyz are answered there: set admin: { listen: …, token: $ADMIN_TOKEN } or admin: { oidc: … }, or take 127.0.0.1 or unix:FILE",
        severity: "warning",
      });
  }

  /** Returns a secret that must be set, as without it access would be open, or a function disabled. */
  private requiredSecret(path: string[], shortest: number, what: string): string | undefined {
    const secret = this.resolveSecret(path);
    if (secret?.off !== undefined) this.report({ path, message: `${secret.off}: set it, or leave the field out` });
    if (secret?.value === undefined) return undefined;
    const weak = shortest > 0 ? weakness(secret.value, shortest) : undefined;
    if (weak) this.report({ path, message: `the ${what} is ${weak}; ${KEY_HINT}` });
    return secret.value;
  }

  private readStore(): void {
    const limits = this.resolveText("store", "limits") ?? DEFAULTS.store.limits;
    const address = limits === "memory" ? { url: limits } : parseRedisAddress(limits, this.folder);
    if ("url" in address) this.values.limits = address.url;
    else this.report({ path: ["store", "limits"], message: address.problem });
    const ledger = this.resolveText("store", "ledger") ?? DEFAULTS.store.ledger;
    const file = /^sqlite:(.+)$/.exec(ledger)?.[1];
    const journal = this.resolveText("store", "journal");
    const wrong = (message: string) => this.report({ path: ["store", "ledger"], message });
    if (file) this.values.store = { ledger: file === ":memory:" ? file : resolve(this.folder, file) };
    else if (/^postgres(ql)?:/.test(ledger)) {
      const settings = parsePostgresUrl(ledger, this.folder);
      if (typeof settings === "string") wrong(settings);
      else {
        const folder = resolve(this.folder, journal ?? "./data/journal");
        this.values.store = { ledger: displayUrl(settings), postgres: { ...settings, journal: folder } };
      }
    } else wrong("not a store for the ledger; write sqlite:FILE or postgres://USER:PASSWORD@HOST/DATABASE");
    if (file && journal !== undefined)
      this.report({
        path: ["store", "journal"],
        message: "the journal of a SQLite file is stored next to it; remove this setting",
      });
    if (file === ":memory:" && ![undefined, 1].includes(atPath(this.file, "workers") as number | undefined))
      wrong("workers share a ledger in a file; write sqlite:FILE, or workers: 1");
    if (file === ":memory:" && atPath(this.file, "store", "durability") === "power")
      this.report({
        path: ["store", "durability"],
        message: "a ledger in memory does not survive a power cut; write ledger: sqlite:FILE, or durability: process",
      });
    if (file === ":memory:" && ![undefined, "off"].includes(atPath(this.file, "store", "keep") as string | undefined))
      this.report({
        path: ["store", "keep"],
        message: "a ledger in memory ends with its gateway; write ledger: sqlite:FILE, or leave keep out",
      });
  }

  private readAlerts(): void {
    const path = ["alerts", "webhook"];
    const text = this.requiredSecret(path, 0, "address");
    if (text === undefined) return;
    const url = parseWebhookUrl(text);
    if (typeof url === "string") this.report({ path, message: url });
    else this.values.webhook = url;
  }

  private readEnvelopes(): void {
    const path = ["envelopes", "key"];
    const key = this.resolveText(...path);
    if (key === undefined) return;
    const weak = weakness(key, MIN_KEY_LENGTH);
    if (weak) this.report({ path, message: `the key is ${weak}; ${KEY_HINT}` });
    this.values.envelopes = key;
  }

  private readProvider(name: string, entry: YamlValue): ProviderValues {
    const text = this.resolveText("providers", name, "url");
    const url = text === undefined ? undefined : parseProviderUrl(text);
    if (typeof url === "string" && url !== "demo:") this.report({ path: ["providers", name, "url"], message: url });
    const found: ProviderValues = url instanceof URL || url === "demo:" ? { url } : {};
    const written = atPath(entry, "credential");
    const path = ["providers", name, "credential"];
    if (typeof written === "string") {
      const { credential, off } = this.readCredential(name, path, written, 0);
      if (off === undefined) return credential ? { ...found, credentials: [credential] } : found;
      this.report({ path, message: offNotice("provider", name, off), severity: "warning" });
      return { ...found, off };
    }
    const list = items(written).map(([i, text]) => ({
      i,
      ...this.readCredential(name, [...path, i], text, Number(i)),
    }));
    const credentials = list.flatMap(({ credential }) => credential ?? []);
    const unset = list.filter(({ off }) => off !== undefined);
    if (list.length === 0 || unset.length < list.length) {
      for (const { i, off } of unset)
        this.report({
          path: [...path, i],
          message: `provider ${JSON.stringify(name)} has one credential less: ${off}`,
          severity: "warning",
        });
      return { ...found, credentials };
    }
    const off = unset.map((each) => each.off).join(", ");
    this.report({ path, message: offNotice("provider", name, off), severity: "warning" });
    return { ...found, off };
  }

  /** Returns one of a provider's credentials, with a label that is no part of it; or why it is off. */
  private readCredential(
    provider: string,
    path: ConfigPath,
    written: YamlValue,
    at: number,
  ): { credential?: Credential; off?: string } {
    const secret = this.resolveSecret(path);
    if (secret?.off !== undefined) return { off: secret.off };
    if (secret?.value === undefined) return {};
    const [, variable, file] = /^(?:\$(\w+)|\$file:(.+))$/.exec(String(written)) ?? [];
    // Only characters allowed in a header value; anything else comes from a copying error.
    if (!/^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/.test(secret.value))
      this.report({ path, message: "the credential holds a line break, an outer space or a character outside ASCII" });
    else if (/^bearer\s/i.test(secret.value) && atPath(this.file, "providers", provider, "header") === undefined)
      this.report({
        path,
        message:
          'the credential begins with "Bearer", which is added anyway; write the key alone, or header: authorization',
      });
    else {
      const weak = weakness(secret.value, MIN_CREDENTIAL_LENGTH);
      const source = variable === undefined ? "write" : `set ${variable} to`;
      const fix = `${source} the vendor's credential, or remove the field if the provider needs none`;
      if (weak) this.report({ path, message: `the credential is ${weak}; ${fix}` });
    }
    const label = variable ?? (file === undefined ? `#${at + 1}` : basename(file));
    const digest = hash("sha256", secret.value);
    // Of a secret that is written out its place may change. These digits tell two apart, and too little to confirm a guess.
    const id = variable ?? file ?? `#${digest.slice(0, 4)}`;
    // A changed secret counts as another account, as the file does not say which account it belongs to.
    const account = `${provider}/${at}/${digest.slice(0, 12)}`;
    return { credential: { label, id, secret: secret.value, account } };
  }

  private readKeys(): void {
    const owners = new Map<string, string>();
    for (const [name, entry] of entries(atPath(this.file, "keys"))) {
      const key = this.readKey(name, entry);
      this.values.keys.set(name, key);
      if (key.hash === undefined) continue;
      const owner = owners.get(key.hash);
      if (owner !== undefined) this.report({ path: ["keys", name], key: true, message: sameKeyMessage(owner) });
      owners.set(key.hash, name);
    }
  }

  private readKey(name: string, entry: YamlValue): { hash?: string; off?: string } {
    const written = atPath(entry, "hash");
    if (typeof written === "string") return { hash: written.toLowerCase() };
    const path = ["keys", name, "key"];
    const secret = this.resolveSecret(path);
    if (secret?.off !== undefined) {
      this.report({ path, message: offNotice("key", name, secret.off), severity: "warning" });
      return { off: secret.off };
    }
    if (secret?.value === undefined) return {};
    const weak = /\s/.test(secret.value) ? "one with spaces or line breaks" : weakness(secret.value, MIN_KEY_LENGTH);
    if (weak) this.report({ path, message: `the key is ${weak}; ${KEY_HINT}` });
    return { hash: hash("sha256", secret.value) };
  }

  /** Returns a secret, or why it is off: the variable it names is not set. */
  private resolveSecret(path: ConfigPath): { value?: string; off?: string } | undefined {
    const written = atPath(this.file, ...path);
    if (typeof written !== "string") return undefined;
    const foreign = foreignReference(written);
    const found = foreign ? { wrong: foreign } : resolveReferences(written, this.env, this.folder);
    if ("unset" in found) return { off: found.why };
    if ("value" in found)
      return found.value === ""
        ? { off: `its ${path.includes("credential") ? "credential" : path.at(-1)} is empty` }
        : found;
    this.report({ path, message: found.wrong });
    return undefined;
  }

  /** Returns an address with its references resolved; here an unset variable is an error. */
  private resolveText(...path: string[]): string | undefined {
    const written = atPath(this.file, ...path);
    if (typeof written === "number" && PORT_FIELDS.has(path.join("."))) return String(written);
    if (typeof written !== "string") return undefined;
    const found = resolveReferences(written, this.env, this.folder);
    if ("value" in found) return found.value;
    this.report({ path, message: unresolvedReason(found) });
    return undefined;
  }
}

/**
 * Parses `127.0.0.1:8080`, `[::1]:8080`, `name:8080`; `:8080` for every address, `8080` for 127.0.0.1. Returns a message if
 * invalid.
 */
export function parseListenAddress(text: string): ListenAddress | string {
  const found = /^(?:(\[[0-9a-fA-F:.]+\]|[\w.-]*)(:))?(\d{1,5})$/.exec(text);
  const port = Number(found?.[3]);
  if (!found || port > 65535) return 'not an address to listen on; write it like 127.0.0.1:8080, :8080 or "[::1]:8080"';
  const host = found[1]?.replaceAll(/[[\]]/g, "");
  return { host: found[2] === undefined ? "127.0.0.1" : host || ALL_ADDRESSES, port };
}

/** Reports whether only one of two listeners could listen: on all addresses there is no room for one of them. */
function isSameAddress(one: ListenAddress, other: ListenAddress): boolean {
  if (one.port === 0 || one.port !== other.port) return false;
  const [first, second] = [one, other].map(({ host }) => (host === "localhost" ? "127.0.0.1" : host));
  const hosts = new Set([first, second]);
  return (
    hosts.size === 1 ||
    hosts.has(ALL_ADDRESSES) ||
    (hosts.has("0.0.0.0") && ![...hosts].some((host) => isIPv6(host ?? "")))
  );
}

/** Fields in which a number is a port. */
const PORT_FIELDS = new Set(["listen", "admin", "admin.listen"]);

/** Maximum bytes of a socket path in the kernel. */
const MAX_SOCKET_PATH_BYTES = 107;

/** @param folder the base of a relative file */
export function parseAdminAddress(text: string, folder: string): AdminAddress | string {
  const file = /^unix:(.+)$/.exec(text)?.[1];
  if (file) {
    const path = resolve(folder, file);
    return Buffer.byteLength(path) <= MAX_SOCKET_PATH_BYTES
      ? { path }
      : `the path of a socket file has ${MAX_SOCKET_PATH_BYTES} bytes at most`;
  }
  const address = parseListenAddress(text);
  return typeof address === "object" ? address : `${address}, unix:/run/model-gateway/admin.sock or off`;
}

/** Parses a provider's URL, without a trailing slash; returns a message if invalid. */
export function parseProviderUrl(text: string): URL | string {
  if (text === "demo:") return text;
  const url = URL.parse(text);
  if (!url || !/^https?:$/.test(url.protocol)) return 'not an http address; write it like https://host/v1, or "demo:"';
  if (url.username || url.password)
    return "an address must not contain a user or password; write the secret under credential";
  if (/[?#]/.test(text)) return "an address has no ? or # part";
  url.pathname = url.pathname.replace(/\/+$/, "");
  return url;
}

/**
 * Parses the URL for alerts; returns a message if invalid, without any part of the URL, as everyone who knows it can post
 * there.
 */
export function parseWebhookUrl(text: string): URL | string {
  const url = URL.parse(text);
  if (!url || !/^https?:$/.test(url.protocol))
    return "not an http address; write it as the chat program shows it, like https://hooks.example.com/services/…";
  if (url.username || url.password)
    return "an address must not contain a user or password; use one with a secret in its path";
  if (url.hash) return "an address has no # part";
  if (url.pathname === "/" && url.search === "")
    return "only a host: the whole address of the webhook is needed, with its path";
  return url;
}
