import { createHash } from "node:crypto";
import { resolve } from "node:path";
import { type ConfigPath, offNotice, type Report } from "./problems.ts";
import { reveal, whyNot } from "./secrets.ts";
import { at, entries, type Tree } from "./tree.ts";
import type { Address } from "./types.ts";

/** What secrets and addresses of the file come to; where something was reported, its value is missing. */
export interface ConfigValues {
  listen?: Address;
  admin?: Address;
  /** Absolute SQLite file, or `:memory:`. */
  ledger?: string;
  /** What envelopes are sealed with, where the file says. */
  envelopes?: string;
  providers: Map<string, ProviderValues>;
  keys: Map<string, { hash?: string; off?: string }>;
}

interface ProviderValues {
  url?: URL | "demo:";
  credential?: string;
  /** Why it is off. */
  off?: string;
}

/** A gateway key shorter than this can be guessed. */
const SHORTEST_KEY = 20;

/** Puts in the secrets and reads the addresses of a file of any shape. No message repeats a secret. */
export class ValueReader {
  readonly values: ConfigValues = { providers: new Map(), keys: new Map() };

  constructor(
    private readonly file: Tree,
    private readonly env: NodeJS.ProcessEnv,
    private readonly folder: string,
    private readonly report: Report,
  ) {
    this.listeners();
    this.store();
    this.envelopes();
    for (const [name, entry] of entries(at(file, "providers")))
      this.values.providers.set(name, this.provider(name, entry));
    this.keys();
  }

  private listeners(): void {
    for (const side of ["listen", "admin"] as const) {
      const text = this.text(side) ?? { listen: "127.0.0.1:8080", admin: "127.0.0.1:9090" }[side];
      const address = listenAddress(text);
      if (typeof address === "object") this.values[side] = address;
      else this.report({ path: [side], message: address });
    }
    const { listen, admin } = this.values;
    if (listen && admin && listen.port !== 0 && listen.port === admin.port && listen.host === admin.host)
      this.report({
        path: [at(this.file, "admin") === undefined ? "listen" : "admin"],
        message: "listen and admin have the same address",
      });
  }

  private store(): void {
    const limits = this.text("store", "limits") ?? "memory";
    if (/^rediss?:/.test(limits))
      this.report({ path: ["store", "limits"], message: "redis is not available yet in this version; use memory" });
    else if (limits !== "memory")
      this.report({ path: ["store", "limits"], message: "not a store for limits; write memory" });
    const ledger = this.text("store", "ledger") ?? "sqlite:./data/gateway.db";
    const file = /^sqlite:(.+)$/.exec(ledger)?.[1];
    const wrong = (message: string) => this.report({ path: ["store", "ledger"], message });
    if (file) this.values.ledger = file === ":memory:" ? file : resolve(this.folder, file);
    else if (/^postgres(ql)?:/.test(ledger))
      wrong("postgres is not available yet in this version; use sqlite:./data/gateway.db");
    else wrong("not a store for the ledger; write sqlite:FILE");
  }

  private envelopes(): void {
    const path = ["envelopes", "key"];
    const key = this.text(...path);
    if (key === undefined) return;
    if (key.length < SHORTEST_KEY) this.report({ path, message: `a key has ${SHORTEST_KEY} characters or more` });
    this.values.envelopes = key;
  }

  private provider(name: string, entry: Tree): ProviderValues {
    const text = this.text("providers", name, "url");
    const url = text === undefined ? undefined : providerUrl(text);
    if (typeof url === "string" && url !== "demo:") this.report({ path: ["providers", name, "url"], message: url });
    const found: ProviderValues = url instanceof URL || url === "demo:" ? { url } : {};
    if (typeof at(entry, "credential") !== "string") return found;
    const path = ["providers", name, "credential"];
    const secret = this.secret(path);
    if (secret?.off !== undefined) {
      this.report({ path, message: offNotice("provider", name, secret.off), severity: "warning" });
      return { ...found, off: secret.off };
    }
    if (secret?.value === undefined) return found;
    // What may stand in a header's value; anything else is a slip of the clipboard.
    if (!/^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/.test(secret.value))
      this.report({ path, message: "the credential holds a line break, an outer space or a character outside ASCII" });
    return { ...found, credential: secret.value };
  }

  private keys(): void {
    const owners = new Map<string, string>();
    for (const [name, entry] of entries(at(this.file, "keys"))) {
      const key = this.key(name, entry);
      this.values.keys.set(name, key);
      if (key.hash === undefined) continue;
      const owner = owners.get(key.hash);
      if (owner !== undefined)
        this.report({ path: ["keys", name], key: true, message: `the same key as ${JSON.stringify(owner)}` });
      owners.set(key.hash, name);
    }
  }

  private key(name: string, entry: Tree): { hash?: string; off?: string } {
    const hash = at(entry, "hash");
    if (typeof hash === "string") return { hash: hash.toLowerCase() };
    const path = ["keys", name, "key"];
    const secret = this.secret(path);
    if (secret?.off !== undefined) {
      this.report({ path, message: offNotice("key", name, secret.off), severity: "warning" });
      return { off: secret.off };
    }
    if (secret?.value === undefined) return {};
    if (secret.value.length < SHORTEST_KEY || /\s/.test(secret.value))
      this.report({ path, message: `a key has ${SHORTEST_KEY} characters or more, and no spaces or line breaks` });
    return { hash: createHash("sha256").update(secret.value).digest("hex") };
  }

  /** A secret that may be off, because the variable it names is not set. */
  private secret(path: ConfigPath): { value?: string; off?: string } | undefined {
    const written = at(this.file, ...path);
    if (typeof written !== "string") return undefined;
    const found = reveal(written, this.env, this.folder);
    if ("unset" in found) return { off: found.why };
    if ("value" in found) return found.value === "" ? { off: `its ${path.at(-1)} is empty` } : found;
    this.report({ path, message: found.wrong });
    return undefined;
  }

  /** An address with its references put in; a variable that is not set is a mistake here. */
  private text(...path: string[]): string | undefined {
    const written = at(this.file, ...path);
    if (typeof written === "number" && path.length === 1) return String(written); // a port
    if (typeof written !== "string") return undefined;
    const found = reveal(written, this.env, this.folder);
    if ("value" in found) return found.value;
    this.report({ path, message: whyNot(found) });
    return undefined;
  }
}

/** `127.0.0.1:8080`, `[::1]:8080`, `name:8080`; `:8080` for every address, `8080` for this machine only. Or what is wrong. */
export function listenAddress(text: string): Address | string {
  const found = /^(?:(\[[0-9a-fA-F:.]+\]|[\w.-]*)(:))?(\d{1,5})$/.exec(text);
  const port = Number(found?.[3]);
  if (!found || port > 65535) return 'not an address to listen on; write it like 127.0.0.1:8080, :8080 or "[::1]:8080"';
  const host = found[1]?.replaceAll(/[[\]]/g, "");
  return { host: found[2] === undefined ? "127.0.0.1" : host || "0.0.0.0", port };
}

/** A provider's address without a trailing slash, or what is wrong with it. */
export function providerUrl(text: string): URL | string {
  if (text === "demo:") return text;
  const url = URL.parse(text);
  if (!url || !/^https?:$/.test(url.protocol)) return 'not an http address; write it like https://host/v1, or "demo:"';
  if (url.username || url.password) return "an address holds no user and password; write the secret under credential";
  if (/[?#]/.test(text)) return "an address has no ? or # part";
  url.pathname = url.pathname.replace(/\/+$/, "");
  return url;
}
