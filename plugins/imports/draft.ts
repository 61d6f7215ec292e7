/** A gateway.yaml that is built while another gateway's file is converted. */

/** Any value of a parsed file. */
export type ForeignFields = Readonly<Record<string, unknown>>;

/** A vendor as described in plugins/vendors/. */
export interface KnownVendor {
  readonly id: string;
  readonly variables: readonly string[];
  readonly provider: ForeignFields & { readonly url: string };
  readonly also: readonly string[];
}

/** An account as the other file describes it. */
interface ForeignAccount {
  /** Its vendor's name there. */
  vendor: string;
  /** The key as written there: a secret, or a reference to a variable. */
  credential?: string | undefined;
  url?: string | undefined;
  /** Its path in the file, for messages. */
  path: string;
  /** Further members of the provider. */
  more?: ForeignFields;
  /** Members that the provider gets only where all its entries agree on them. */
  wanted?: ForeignFields;
  /** A protocol that it speaks besides the usual ones, for the model that is added. */
  speaks?: string | undefined;
}

interface DraftModel {
  targets: ForeignFields[];
  aliases: string[];
  fallback: string[];
  more: Record<string, unknown>;
}

/**
 * Placeholders for a key where the provider requires none, like a self-hosted server; a vendor's own address always requires
 * one.
 */
const NO_KEY = /^(?:none|dummy|empty|fake|fake-key|sk-1234|no-?key|not?-?needed|ollama)$/i;

const isFields = (value: unknown): value is ForeignFields =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Returns the members of a value that is an object; none for any other. */
export const foreignFields = (value: unknown): ForeignFields => (isFields(value) ? value : {});

/** Returns the entries of a value that is a list; none for any other. */
export const foreignList = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

/** Returns a value that is a text and not empty; undefined for any other. */
export const nonEmptyText = (value: unknown): string | undefined =>
  typeof value === "string" && value !== "" ? value : undefined;

/** Returns a number, which the file may have as a text. */
export function numberOf(value: unknown): number | undefined {
  const number = typeof value === "string" && value.trim() !== "" ? Number(value) : value;
  return typeof number === "number" && Number.isFinite(number) ? number : undefined;
}

/** What is the counterpart of a member here, perhaps with its value in it. */
export type Hint = string | ((value: unknown) => string);

/** Collects the providers, models and sections of a gateway.yaml, and what of the other file has no counterpart. */
export class Draft {
  readonly sections: Record<string, unknown> = {};
  /** Why a member has no counterpart, by its path. */
  private readonly lost = new Map<string, string>();
  private readonly accounts = new Map<string, string>();
  private readonly providers = new Map<string, Record<string, unknown>>();
  private readonly models = new Map<string, DraftModel>();
  private readonly wanted: { provider: string; path: string; wanted: ForeignFields }[] = [];
  /** Variable names for keys written in the file, by key. */
  private readonly written = new Map<string, string>();
  /** Their number by usual variable. */
  private readonly writtenFor = new Map<string, number>();

  /**
   * @param variable returns the name of the variable that a text refers to; undefined: it is the secret itself
   * @param hints our counterparts of the other file's members, by name
   */
  constructor(
    private readonly vendors: readonly KnownVendor[],
    private readonly variable: (text: string) => string | undefined,
    private readonly hints: Readonly<Record<string, Hint>>,
  ) {}

  /** Reports that a member has no counterpart. */
  reportLost(path: string, why: string): void {
    if (!this.lost.has(path)) this.lost.set(path, why);
  }

  /** Reports each member that is not among the known ones. */
  reportUnknown(
    fields: ForeignFields,
    known: readonly string[],
    path: string,
    why = "there is nothing like it here",
  ): void {
    for (const [name, value] of Object.entries(fields)) {
      if (known.includes(name)) continue;
      const hint = (Object.hasOwn(this.hints, name) && this.hints[name]) || why;
      this.reportLost(`${path}${name}`, typeof hint === "string" ? hint : hint(value));
    }
  }

  vendor(name: string): KnownVendor | undefined {
    return this.vendors.find(({ id, also }) => id === name || also.includes(name));
  }

  /** Returns an address with the version path of the vendor's own; `/v1` for an unknown vendor. */
  withVersionOf(vendor: string, url: string): string {
    const native = this.vendor(vendor)?.provider.url;
    return withVersion(url, native === undefined ? "/v1" : new URL(native).pathname);
  }

  /** Returns an account's provider: the same for the same vendor, address and key; undefined where its address is unknown. */
  provider({ speaks, ...account }: ForeignAccount): string | undefined {
    const id = this.accountProvider(account);
    const provider = id === undefined ? undefined : this.providers.get(id);
    if (!provider || speaks === undefined) return id;
    const { protocol } = provider;
    const known = protocol === undefined ? foreignList(provider["speaks"]) : [protocol];
    if (known.includes(speaks)) return id;
    if (protocol !== undefined && !String(protocol).startsWith("openai-")) {
      this.reportLost(
        account.path,
        `the provider ${id} is not called by ${speaks}: clients speak ${protocol} to this model`,
      );
      return id;
    }
    delete provider["protocol"];
    provider["speaks"] = [...known, speaks];
    return id;
  }

  private accountProvider({
    vendor: name,
    credential,
    url,
    path,
    more = {},
    wanted = {},
  }: Omit<ForeignAccount, "speaks">): string | undefined {
    const vendor = this.vendor(name);
    const address = url ?? vendor?.provider.url;
    if (address === undefined) {
      this.reportLost(path, `the vendor "${name}" is unknown, and the file has no URL for it`);
      return undefined;
    }
    const elsewhere = vendor && address !== vendor.provider.url && URL.canParse(address);
    const secret =
      NO_KEY.test(credential ?? "") && (!vendor || elsewhere)
        ? undefined
        : this.credential(credential, vendor, name, path);
    const account = JSON.stringify([vendor?.id ?? name, address, secret]);
    const known = this.accounts.get(account);
    if (known !== undefined) {
      this.wanted.push({ provider: known, path, wanted });
      return known;
    }
    const called = elsewhere ? new URL(address).hostname : (vendor?.id ?? name);
    const id = this.freeName(called.replace(/[^\w.-]/g, "-"));
    this.wanted.push({ provider: id, path, wanted });
    const { url: _, ...rest } = vendor?.provider ?? {};
    const speaks = vendor && address === vendor.provider.url ? rest : singleProtocol(rest);
    this.accounts.set(account, id);
    const { header, ...others } = more;
    const shown = secret === undefined ? {} : { credential: secret, ...(header !== undefined && { header }) };
    this.providers.set(id, { url: address, ...shown, ...speaks, ...others });
    return id;
  }

  /** Gives a provider the members on which all its entries agree, and reports those that only some have. */
  private applySettings(id: string, provider: Record<string, unknown>): void {
    const own = this.wanted.filter((each) => each.provider === id);
    const names = new Set(own.flatMap(({ wanted }) => Object.keys(wanted)));
    for (const name of names) {
      const value = JSON.stringify(own[0]?.wanted[name]);
      if (own.every(({ wanted }) => JSON.stringify(wanted[name]) === value)) provider[name] = own[0]?.wanted[name];
      else
        for (const { path, wanted } of own)
          if (wanted[name] !== undefined)
            this.reportLost(
              `${path} (${name})`,
              `it is a setting of the whole provider ${id} here, and its other models want another`,
            );
    }
  }

  private credential(
    text: string | undefined,
    vendor: KnownVendor | undefined,
    name: string,
    path: string,
  ): string | undefined {
    const [usual] = vendor?.variables ?? [];
    if (text === undefined) return usual === undefined ? undefined : `$${usual}`;
    const variable = this.variable(text);
    if (variable !== undefined) return `$${variable}`;
    const own = this.variableFor(text, usual ?? `${name.toUpperCase().replace(/\W/g, "_")}_API_KEY`);
    this.reportLost(`${path} (key)`, `the file contains it: put it into the variable ${own}`);
    return `$${own}`;
  }

  /**
   * Returns a variable name of its own for each key written in the file: it may belong to another account than the default
   * variable's.
   */
  private variableFor(secret: string, usual: string): string {
    return this.written.getOrInsertComputed(secret, () => {
      const n = (this.writtenFor.get(usual) ?? 0) + 1;
      this.writtenFor.set(usual, n);
      return `${usual}_FROM_FILE${n === 1 ? "" : `_${n}`}`;
    });
  }

  private freeName(name: string): string {
    for (let n = 1; ; n++) {
      const each = n === 1 ? name : `${name}-${n}`;
      if (!this.providers.has(each)) return each;
    }
  }

  /** Returns a model, created at its first mention. */
  model(name: string): DraftModel {
    return this.models.getOrInsertComputed(name, () => ({ targets: [], aliases: [], fallback: [], more: {} }));
  }

  /** Adds a target to a model. @param weight undefined: the usual one */
  addTarget(model: string, to: string, weight: number | undefined, more: ForeignFields = {}): void {
    this.model(model).targets.push({ to, ...(weight !== undefined && { weight }), ...more });
  }

  /** Returns a weight as the other file has it; reports 0, with which a target there gets no requests. */
  weight(value: unknown, path: string): number | undefined {
    if (value === 0) this.reportLost(path, "a target gets requests: take it out of targets: if it must not");
    return typeof value === "number" && value > 0 ? value : undefined;
  }

  /** The names of all models so far. */
  get names(): string[] {
    return [...this.models.keys()].filter((name) => this.has(name));
  }

  has(name: string): boolean {
    return (this.models.get(name)?.targets.length ?? 0) > 0;
  }

  /** Returns the result; useless entries are left out and reported. */
  result() {
    const models = [...this.models].flatMap(([name, { targets, aliases, fallback, more }]) => {
      if (targets.length === 0) return [];
      const own = new Set(targets.map(({ to }) => to));
      // What falls back to its own targets would only ask them twice.
      const known = fallback.filter(
        (each) => this.has(each) && this.model(each).targets.some(({ to }) => !own.has(to)),
      );
      const entry = {
        ...more,
        ...(aliases.length > 0 && { aliases: [...new Set(aliases)] }),
        targets: mergeTargets(targets).map(({ to, ...rest }) =>
          Object.keys(rest).length === 0 ? to : { to, ...rest },
        ),
        ...(known.length > 0 && { fallback: [...new Set(known)] }),
      };
      return [{ name, entry }];
    });
    const used = new Set(models.flatMap(({ entry }) => entry.targets.map(providerOf)));
    for (const [name, provider] of this.providers) if (used.has(name)) this.applySettings(name, provider);
    const providers = [...this.providers]
      .filter(([name]) => used.has(name))
      .map(([name, entry]) => ({ name, entry: entry as ForeignFields }));
    const lost = [...this.lost].map(([path, why]) => ({ path, why }));
    return { providers, models, sections: this.sections, lost };
  }
}

/** Merges equal targets and adds their weights: other files spread load over several entries of one account. */
function mergeTargets(targets: readonly ForeignFields[]): ForeignFields[] {
  const kept = new Map<string, ForeignFields>();
  for (const target of targets) {
    const { weight = 1, ...rest } = target;
    const key = JSON.stringify(rest);
    const same = kept.get(key);
    kept.set(key, same ? { ...same, weight: Number(same["weight"] ?? 1) + Number(weight) } : target);
  }
  return [...kept.values()];
}

const providerOf = (target: unknown): string => {
  const to = isFields(target) ? target["to"] : target;
  return String(to).split(":", 1)[0] as string;
};

/** Returns the protocol at another address of a vendor: only the first one is certain. */
function singleProtocol(provider: ForeignFields): ForeignFields {
  const [first] = foreignList(provider["speaks"]);
  return { protocol: provider["protocol"] ?? first ?? "openai-chat" };
}

/** Adds a protocol's version path to an address without a path. */
export function withVersion(url: string, version = "/v1"): string {
  if (!URL.canParse(url)) return url;
  const clean = url.replace(/\/+$/, "").replace(/\/(?:chat\/completions|messages|responses)$/, "");
  return new URL(clean).pathname === "/" ? `${clean}${version}` : clean;
}

/** The numbers that make sense for a member; by default, those that are not negative. */
interface NumberRange {
  readonly positive?: boolean;
  readonly whole?: boolean;
}

/** Returns a member that is a number; reports other values, like references to variables, and numbers out of its range. */
export function numberAt(
  fields: ForeignFields,
  name: string,
  path: string,
  draft: Draft,
  { positive = false, whole = false }: NumberRange = {},
): number | undefined {
  const value = fields[name];
  if (value === undefined || value === null) return undefined;
  const number = numberOf(value);
  const fits =
    number !== undefined && (positive ? number > 0 : number >= 0) && (!whole || Number.isSafeInteger(number));
  if (fits) return number;
  const range = `a ${whole ? "whole " : ""}number ${positive ? "above" : "of at least"} 0`;
  draft.reportLost(`${path}${name}`, number === undefined ? "it is not written as a number" : `it is not ${range}`);
  return undefined;
}
