import type { Caller } from "../core/caller.ts";
import type { LimitTable } from "../core/limits.ts";
import type { Facts, Model, Provider } from "../core/marketplace.ts";
import type { Price } from "../core/price.ts";
import type { StoreLocation, StoreOptions } from "../store/postgres/place.ts";
import type { FileEntries } from "./file-entries.ts";
import type { Problem } from "./problems.ts";
import type { GatewayFile } from "./schema.ts";

/** An OpenID Connect identity provider for the admin side. */
export interface OidcSettings {
  readonly issuer: URL;
  readonly client_id: string;
  /** Absent: a public client, with PKCE only. */
  readonly client_secret?: string;
  /** The URL of the console for browsers. */
  readonly url: URL;
  readonly scope: string;
  /** The claim whose value is the person's name in the audit trail; absent: email, preferred_username or sub. */
  readonly name?: string;
  readonly roles: {
    /** Dots lead into objects: `realm_access.roles`. */
    readonly claim: string;
    /** Values of the claim for each role; `*`: everybody. */
    readonly admin: readonly string[];
    readonly viewer: readonly string[];
  };
}

/** Sections that are used as the schema parses and describes them: times in milliseconds, sizes in bytes; 0: no limit. */
export const PLAIN_SECTIONS = [
  ...(["retry", "timezone", "share", "trust", "connections", "body", "answers", "sockets", "overload"] as const),
  ...(["drain", "linger", "crash_drain", "warm_up", "log"] as const),
];

/** gateway.yaml with all defaults filled in, names checked and secrets resolved. */
export interface Config extends Readonly<Pick<GatewayFile, (typeof PLAIN_SECTIONS)[number]>> {
  /** The absolute path of the file. */
  readonly file: string;
  /** The absolute base of relative paths in it. */
  readonly folder: string;
  /** The original content of the file, including literal secrets. */
  readonly text: string;
  /** The content with stars for all literal secrets. */
  readonly masked: string;
  readonly listen: ListenAddress;
  /** Absent: off. */
  readonly admin?: AdminAddress;
  /** The sites whose page scripts may send requests; absent: none. */
  readonly cors?: Exclude<GatewayFile["cors"], "off">;
  /** Whether the public side has pages for browsers. */
  readonly pages: boolean;
  readonly adminAccess: {
    /**
     * SHA-256 in hex of the token that may change things, and of the one that may only look; both absent: no token is required.
     */
    readonly token?: string;
    readonly viewer?: string;
    /** Sign-in by an identity provider, in addition. */
    readonly oidc?: OidcSettings;
    /** Accepted names in the Host header besides the default ones. */
    readonly hosts: readonly string[];
    /** Milliseconds of a session. */
    readonly session: number;
  };
  /** Processes that serve requests; 1: this one, without a primary. */
  readonly workers: number;
  readonly providers: readonly ConfiguredProvider[];
  /** The share of a request's targets that is never taken out of use. */
  readonly keep: number;
  readonly models: readonly ConfiguredModel[];
  /** Every plugin that the file names anywhere, in no order. */
  readonly plugins: ReadonlyMap<string, ConfiguredPlugin>;
  /** Plugins by the name of the chain, in order. */
  readonly chains: ReadonlyMap<string, readonly string[]>;
  readonly paths: readonly ConfiguredPath[];
  /** Default paths that the file removes. */
  readonly pathsOff: readonly string[];
  readonly limits: LimitTable;
  /** All budgets in the file, and what they apply to. */
  readonly budgets: readonly ConfiguredBudget[];
  readonly keys: readonly ConfiguredKey[];
  readonly store: StoreSettings;
  /** Number of gateways that serve together; absent: not configured. */
  readonly instances?: number;
  /** The secret that envelopes are sealed with; absent: one stored with the ledger. */
  readonly envelopes: { readonly key?: string };
  /** Whether a caller's traceparent is forwarded to providers. */
  readonly trace: boolean;
  /** Absent: no alerts are sent. */
  readonly alerts?: {
    /** A secret, as everyone who knows it can post there. */
    readonly webhook: URL;
    /** Milliseconds. */
    readonly repeat: number;
  };
  /** Entries of the file for keys, groups and providers, in its own words. */
  readonly written: FileEntries;
  /** Notices to log once at start, one line each: what is off, and why. */
  readonly notices: readonly string[];
  /** The notices with their positions. */
  readonly warnings: readonly Problem[];
}

/** An address to listen on; port 0 takes a free one. */
export interface ListenAddress {
  readonly host: string;
  readonly port: number;
}

/** The address of the admin side. */
export type AdminAddress = (ListenAddress | { readonly path: string }) & {
  /** Set if it is the default: if the port is in use, the gateway starts without an admin side. */
  readonly isDefault?: true;
};

/** A provider of the file. The URL of the built-in one is the text `demo:`; it speaks every protocol. 0 in timeouts: no limit. */
export interface ConfiguredProvider extends Readonly<Omit<Provider, "url">> {
  readonly url: URL | "demo:";
  /** Whether it takes the WebSockets of the protocols that have them. */
  readonly websocket: boolean;
  /** Why it takes no requests, like `NAME is not set`. */
  readonly off?: string;
}

/** An entry of the marketplace whose targets name their providers. */
export interface ConfiguredModel extends Readonly<Omit<Model, "targets" | "capabilities">> {
  /** Its position in the file. */
  readonly place: Pick<Problem, "file" | "line" | "column">;
  /** Absent: taken from public tables for its targets. */
  readonly can?: readonly string[];
  readonly targets: readonly ConfiguredTarget[];
}

/** A provider and the model there that serve a model of the marketplace. */
export interface ConfiguredTarget {
  /** Name of a provider, which may be off. */
  readonly provider: string;
  /** The vendor's name of the model. */
  readonly model: string;
  readonly weight: number;
  /** The target's own, or the model's; absent: taken from public tables. */
  readonly price?: Price;
  /** The protocol to use there, whatever the caller uses. */
  readonly via?: string;
  /** The model's facts, overridden by the target's. */
  readonly facts?: Facts;
}

/** A plugin that the file names, with its options. */
export interface ConfiguredPlugin {
  /** A file, as written: relative to the config's folder. Absent: a file of that name in a `plugins` folder. */
  readonly from?: string;
  /** Milliseconds that one of its phases may take; 0: no limit; absent: the default. */
  readonly deadline?: number;
  /** The options as parsed by the plugin's own schema, with defaults. */
  readonly options: unknown;
  /** Texts of the options that no message may repeat, with their replacements. */
  readonly secrets?: ReadonlyMap<string, string>;
  /** Its position in the file, like `gateway.yaml:4:3`; absent if only chains name it. */
  readonly place?: string;
}

/** A path of the public side, and how requests to it are served. */
export interface ConfiguredPath {
  readonly path: string;
  /** Exactly one of this, `serve` and `pass` is set. */
  readonly protocol?: string;
  /** The plugin that serves it. */
  readonly serve?: string;
  /** The provider for passthrough. */
  readonly pass?: ConfiguredPass;
  /** Name of the chain; the path itself if the file lists plugins. */
  readonly use: string;
  /** Refuses what the provider's protocol cannot express, instead of dropping it. */
  readonly strict: boolean;
}

interface ConfiguredPass {
  /** Name of a provider, which may be off. */
  readonly provider: string;
  /** Whether it accepts keys that are limited to models. */
  readonly open: boolean;
  /** Whether it accepts requests that create keys of the vendor's own. */
  readonly mint: boolean;
}

/** A budget in the file, and what it applies to. */
export interface ConfiguredBudget {
  /** Whether it refuses requests. */
  readonly hard: boolean;
  /** Ids of models, in which `*` matches any text; absent: all. */
  readonly models?: readonly string[];
  readonly provider?: string;
}

/** A key of the file, and what it may be used for; its limits are among those of the file. */
export interface ConfiguredKey extends Readonly<Omit<Caller, "id" | "limits">> {
  /** SHA-256 of the key in hex; absent when the key is off. */
  readonly hash?: string;
  /** Why it is refused, like `NAME is not set`. */
  readonly off?: string;
}

/** Where state is kept, and for how long. */
export interface StoreSettings extends StoreLocation, Required<StoreOptions> {
  /** `memory`, or the URL of a Redis or Valkey server. */
  readonly limits: string;
}
