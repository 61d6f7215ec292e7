import { type Facts, type Model, type Provider } from "../core/marketplace.ts";
import type { Problem } from "./problems.ts";
import type { Money } from "./units.ts";

/** gateway.yaml with every default filled in, every name checked, every secret put in. */
export interface Config {
  /** The file, absolute. */
  readonly file: string;
  /** Where relative paths in it start, absolute. */
  readonly folder: string;
  readonly listen: Address;
  readonly admin: Address;
  readonly providers: readonly ConfiguredProvider[];
  readonly models: readonly ConfiguredModel[];
  /** Every plugin that the file names anywhere, in no order. */
  readonly plugins: ReadonlyMap<string, ConfiguredPlugin>;
  /** Plugins by the name of the chain, in order. */
  readonly chains: ReadonlyMap<string, readonly string[]>;
  readonly paths: readonly ConfiguredPath[];
  /** Usual paths that the file has taken away. */
  readonly pathsOff: readonly string[];
  readonly limits: { readonly default?: Allowance };
  readonly keys: readonly ConfiguredKey[];
  readonly store: Store;
  /** What envelopes are sealed with; absent: a secret that is kept beside the ledger. */
  readonly envelopes: { readonly key?: string };
  readonly body: {
    /** Bytes of a request's body, at most. */
    readonly limit: number;
    /** Milliseconds between two pieces of it; 0: no end. */
    readonly idle: number;
  };
  readonly sockets: {
    /** Milliseconds without a byte in either direction; 0: no end. */
    readonly idle: number;
    /** Bytes of a message, at most. */
    readonly message: number;
  };
  /** Milliseconds that running exchanges get at a stop. */
  readonly drain: number;
  readonly log: { readonly level: string };
  /** Worth saying once at start, one line each: what is off, and why. */
  readonly notices: readonly string[];
  /** The same with their places. */
  readonly warnings: readonly Problem[];
}

/** Where to listen; port 0 takes a free one. */
export interface Address {
  readonly host: string;
  readonly port: number;
}

/** The built-in provider's address is the text `demo:`; it speaks every protocol. 0 in timeouts: no end. */
export interface ConfiguredProvider extends Readonly<Omit<Provider, "url">> {
  readonly url: URL | "demo:";
  /** It takes the WebSockets of the protocols that have them. */
  readonly websocket: boolean;
  /** Why it takes no requests, like `NAME is not set`. */
  readonly off?: string;
}

/** An entry of the marketplace whose targets name their providers. */
export interface ConfiguredModel extends Readonly<Omit<Model, "targets">> {
  readonly targets: readonly ConfiguredTarget[];
}

export interface ConfiguredTarget {
  /** Name of a provider; it may be off. */
  readonly provider: string;
  /** The vendor's name of the model. */
  readonly model: string;
  readonly weight: number;
  /** The protocol to speak there, whatever the caller speaks. */
  readonly via?: string;
  /** The model's, with what the target says instead. */
  readonly facts?: Facts;
}

export interface ConfiguredPlugin {
  /** A file, as written: relative to the config's folder. Absent: a file of that name in a `plugins` folder. */
  readonly from?: string;
  /** Milliseconds that one of its phases may take; 0: no end; absent: the usual time. */
  readonly deadline?: number;
  /** What the plugin's own schema made of its options, defaults filled in. */
  readonly options: unknown;
  /** Where the file configures it, like `gateway.yaml:4:3`; absent where only chains name it. */
  readonly place?: string;
}

export interface ConfiguredPath {
  readonly path: string;
  /** Either this, `serve` or `pass`. */
  readonly protocol?: string;
  /** The plugin that answers. */
  readonly serve?: string;
  /** Where its requests pass unread. */
  readonly pass?: ConfiguredPass;
  /** Name of the chain; the path itself where the file lists plugins. */
  readonly use: string;
  /** Refuses what cannot be said in the provider's protocol, instead of dropping it. */
  readonly strict: boolean;
}

export interface ConfiguredPass {
  /** Name of a provider; it may be off. */
  readonly provider: string;
  /** Takes keys that are limited to models. */
  readonly open: boolean;
  /** Takes calls that make keys of the vendor's own. */
  readonly mint: boolean;
}

/** What a caller may use; an absent figure is unlimited. */
export interface Allowance {
  /** Requests per minute. */
  readonly rpm?: number;
  /** Tokens per minute. */
  readonly tpm?: number;
  /** Requests at the same time. */
  readonly concurrency?: number;
  readonly budget?: Money;
}

export interface ConfiguredKey {
  readonly name: string;
  /** SHA-256 of the key in hex; absent when the key is off. */
  readonly hash?: string;
  /** Names of models it may use; absent: all. */
  readonly models?: readonly string[];
  readonly budget?: Money;
  /** Unix milliseconds. */
  readonly expires?: number;
  /** Why it opens nothing, like `NAME is not set`. */
  readonly off?: string;
}

export interface Store {
  /** SQLite file, absolute, or `:memory:`. */
  readonly ledger: string;
  readonly limits: "memory";
}
