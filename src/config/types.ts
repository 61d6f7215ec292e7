import type { LimitTable } from "../core/limits.ts";
import type { Facts, Model, Provider, RetryLimits } from "../core/marketplace.ts";
import type { Price } from "../core/price.ts";
import type { Share } from "../objects/share.ts";
import type { StorePlace } from "../store/postgres/place.ts";
import type { Problem } from "./problems.ts";
import type { Written } from "./written.ts";

/** An identity provider whose people may use the admin side (OpenID Connect). */
export interface Oidc {
  readonly issuer: URL;
  readonly client_id: string;
  /** Absent: a public client, by PKCE alone. */
  readonly client_secret?: string;
  /** Where browsers reach the console. */
  readonly url: URL;
  readonly scope: string;
  /** The claim that names somebody in the audit trail; absent: email, preferred_username or sub. */
  readonly name?: string;
  readonly roles: {
    /** Dots lead into objects: `realm_access.roles`. */
    readonly claim: string;
    /** Values of it for each role; `*`: everybody. */
    readonly admin: readonly string[];
    readonly viewer: readonly string[];
  };
}

/** gateway.yaml with every default filled in, every name checked, every secret put in. */
export interface Config {
  /** The file, absolute. */
  readonly file: string;
  /** Where relative paths in it start, absolute. */
  readonly folder: string;
  /** The file as it was read, whatever secrets stand in it. */
  readonly text: string;
  /** The same with stars for all secrets that stand in it. */
  readonly masked: string;
  readonly listen: Address;
  /** Absent: off. */
  readonly admin?: AdminAddress;
  /** Pages of other sites whose scripts may ask; absent: none. */
  readonly cors?: { readonly origins: readonly string[] /** Milliseconds. */; readonly maxAge: number };
  /** Whether the public side has pages for browsers. */
  readonly pages: boolean;
  readonly adminAccess: {
    /** SHA-256 of the token with which things can be changed, and of the one for looking, in hex; both absent: none is asked for. */
    readonly token?: string;
    readonly viewer?: string;
    /** People of an identity provider sign in too. */
    readonly oidc?: Oidc;
    /** Names in the Host header besides the usual ones. */
    readonly hosts: readonly string[];
    /** Milliseconds that somebody stays signed in. */
    readonly session: number;
  };
  /** Processes that serve requests; 1: this one, without a primary. */
  readonly workers: number;
  readonly providers: readonly ConfiguredProvider[];
  readonly retry: RetryLimits;
  /** The share of a request's targets that is never left alone. */
  readonly keep: number;
  readonly models: readonly ConfiguredModel[];
  /** Every plugin that the file names anywhere, in no order. */
  readonly plugins: ReadonlyMap<string, ConfiguredPlugin>;
  /** Plugins by the name of the chain, in order. */
  readonly chains: ReadonlyMap<string, readonly string[]>;
  readonly paths: readonly ConfiguredPath[];
  /** Usual paths that the file has taken away. */
  readonly pathsOff: readonly string[];
  readonly limits: LimitTable;
  /** Where it tells of money, and whose. */
  readonly budgets: readonly ConfiguredBudget[];
  /** In which days, weeks and months of budgets begin. */
  readonly timezone: string;
  readonly keys: readonly ConfiguredKey[];
  /** Who may name what a key made at a provider. */
  readonly share: Share;
  readonly store: Store;
  /** Gateways that serve together; absent: nobody has said. */
  readonly instances?: number;
  /** What envelopes are sealed with; absent: a secret that is kept beside the ledger. */
  readonly envelopes: { readonly key?: string };
  readonly body: {
    /** Bytes of a request's body, at most. */
    readonly limit: number;
    /** Milliseconds between two pieces of it; 0: no end. */
    readonly idle: number;
    /** Bytes a second below which it is given up; 0: never. */
    readonly slowest: number;
    /** Milliseconds before that counts. */
    readonly patience: number;
  };
  /** Whether a caller's traceparent goes on to providers. */
  readonly trace: boolean;
  /** Absent: nobody is told. */
  readonly alerts?: {
    /** A secret, as whoever knows it may post there. */
    readonly webhook: URL;
    /** Milliseconds. */
    readonly repeat: number;
  };
  /** Addresses and ranges of proxies whose X-Forwarded-For counts. */
  readonly trust: readonly string[];
  readonly connections: {
    /** How many one address may hold. */
    readonly per_address: number;
    /** Milliseconds for the head of a request; 0: no end. */
    readonly head: number;
    /** Milliseconds without a request; 0: no end. */
    readonly idle: number;
  };
  readonly overload: Load;
  readonly sockets: {
    /** Milliseconds without a byte in either direction; 0: no end. */
    readonly idle: number;
    /** Bytes of a message, at most. */
    readonly message: number;
  };
  /** Milliseconds that running exchanges get at a stop; 0: as long as they take. */
  readonly drain: number;
  /** Milliseconds for which a stopping gateway still takes connections, and serves idle ones after the last request. */
  readonly linger: number;
  /** Milliseconds of rehearsal before the first request; 0: none. */
  readonly warm_up: number;
  readonly log: { readonly level: string };
  /** What the file says of keys, groups and providers, in its own words. */
  readonly written: Written;
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

/** Where the admin side listens. */
export type AdminAddress = (Address | { readonly path: string }) & {
  /** The file does not name it: where it is taken, the gateway does without. */
  readonly usual?: true;
};

/** The built-in provider's address is the text `demo:`; it speaks every protocol. 0 in timeouts: no end. */
export interface ConfiguredProvider extends Readonly<Omit<Provider, "url">> {
  readonly url: URL | "demo:";
  /** It takes the WebSockets of the protocols that have them. */
  readonly websocket: boolean;
  /** Why it takes no requests, like `NAME is not set`. */
  readonly off?: string;
}

/** An entry of the marketplace whose targets name their providers. */
export interface ConfiguredModel extends Readonly<Omit<Model, "targets" | "can">> {
  /** Where the file tells of it. */
  readonly place: Pick<Problem, "file" | "line" | "column">;
  /** Absent: what public tables say of its targets. */
  readonly can?: readonly string[];
  readonly targets: readonly ConfiguredTarget[];
}

export interface ConfiguredTarget {
  /** Name of a provider; it may be off. */
  readonly provider: string;
  /** The vendor's name of the model. */
  readonly model: string;
  readonly weight: number;
  /** The model's, unless the target says its own; absent: what public tables say. */
  readonly price?: Price;
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
  /** Texts among them that no message may repeat, with what is told in their place. */
  readonly secrets?: ReadonlyMap<string, string>;
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

/** What is taken on at a time; 0: whatever comes. */
export interface Load {
  /** Exchanges, in all and of one key. */
  readonly concurrency: number;
  readonly perKey: number;
  /** Exchanges that may wait, and for how many milliseconds. */
  readonly queue: number;
  readonly wait: number;
  /** Milliseconds by which the event loop may be late. */
  readonly delay: number;
  /** The part of V8's memory that may be in use. */
  readonly heap: number;
}

/** Where the file sets a budget, and what that concerns. */
export interface ConfiguredBudget {
  /** It refuses. */
  readonly hard: boolean;
  /** Ids of models, in which * stands for any text; absent: all. */
  readonly models?: readonly string[];
  readonly provider?: string;
}

export interface ConfiguredKey {
  readonly name: string;
  /** SHA-256 of the key in hex; absent when the key is off. */
  readonly hash?: string;
  /** Ids of models it may use, in which * stands for any text; absent: all. */
  readonly models?: readonly string[];
  /** Paths it may use, in the same way; absent: all. */
  readonly paths?: readonly string[];
  /** Addresses and ranges it may be used from; absent: all. */
  readonly addresses?: readonly string[];
  readonly group?: string;
  readonly owner?: string;
  readonly tags?: Readonly<Record<string, string>>;
  /** Unix milliseconds. */
  readonly expires?: number;
  /** Why it opens nothing, like `NAME is not set`. */
  readonly off?: string;
}

export interface Store extends StorePlace {
  /** `memory`, or the address of a server of Redis or Valkey. */
  readonly limits: string;
  /** What rows survive once an answer's last byte has left. */
  readonly durability: "process" | "power";
  /** Milliseconds that rows are kept, whole days; 0: for good. */
  readonly keep: number;
}
