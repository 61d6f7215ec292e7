import { join } from "node:path";
import { setImmediate as turn } from "node:timers/promises";
import { loadConfig } from "../config/load.ts";
import type { Exchange, Outcome } from "../core/exchange.ts";
import type { Plugin, PluginClass } from "../core/plugin.ts";
import type { Protocol } from "../core/protocol.ts";
import { Gateway } from "../gateway.ts";
import { findExtensions, LoadedConfig, type LoadedExtensions } from "../loaded-config.ts";
import { knownPlugin } from "../loader/methods.ts";
import type { LedgerEntry } from "../store/ledger.ts";
import { isTranslatable } from "../translation/codec.ts";
import { Pools } from "../upstream/http1/pools.ts";
import {
  type ClientResponse,
  encodeTest,
  type ResponseContent,
  responseContent,
  responseFrames,
  sendTest,
  type TestRequest,
} from "./client.ts";
import { type LogLine, MemoryLog } from "./memory-log.ts";
import { socketPair } from "./memory-socket.ts";
import type { ProviderAnswer } from "./provider-answer.ts";
import { MARK_HEADER, ScriptedProvider, type SentRequest, type TestResponder } from "./scripted-provider.ts";

/** Options of a driven plugin. */
export interface DriveOptions {
  /** Its options, as in gateway.yaml. */
  options?: Record<string, unknown>;
  /** Its name in gateway.yaml; by default the class's name in kebab case: `RouteByTeam` is `route-by-team`. */
  name?: string;
  /**
   * The chain with the plugin; by default the usual chain, with it before `rewrite`, or before the first plugin in its own
   * `before` and after the last in its `after`; at both ends if `twice`.
   */
  chain?: readonly string[];
  /**
   * More of gateway.yaml, section by section: models, providers, keys, limits, other plugins. There is a key `test`, a model
   * `any`, whose provider speaks every protocol, and for each protocol with translation a model of the same name, whose provider
   * speaks only that protocol; an entry of the same name replaces them.
   */
  gateway?: Record<string, unknown>;
  /** Values of `$NAME` in all of that. */
  env?: Record<string, string>;
  /** Base folder of relative paths in all of that; by default the working folder. */
  folder?: string;
}

/** Providers' answers: one for every request, a list by request (the last one repeats), or a function of the request. */
type ProviderScript =
  | string
  | ProviderAnswer
  | readonly (string | ProviderAnswer)[]
  | ((sent: SentRequest) => string | ProviderAnswer | Promise<string | ProviderAnswer>);

/** The result of a request. */
interface TestResult extends ClientResponse, ResponseContent {
  /** Parses the response's body. @throws SyntaxError where it is not JSON */
  // biome-ignore lint/suspicious/noExplicitAny: a test knows what it looks for
  json(): any;
  /** The JSON of each event of a stream, or of each element of an array. */
  // biome-ignore lint/suspicious/noExplicitAny: a test knows what it looks for
  events: any[];
  /** The requests that providers got, in order; empty where none was sent. */
  sent: SentRequest[];
  /** How the exchange ended; undefined where the request was refused before it became one. */
  outcome: Outcome | undefined;
  /** The error, with the plugin and phase that reported it. */
  error: { code: string; status: number; message: string; origin: string | undefined } | undefined;
}

/** The default key of tests. */
const TEST_KEY = "test-key-0123456789abcdef";
/** The usual chain of models, without the plugin. */
const DEFAULT_CHAIN = ["sse", "auth", "scrub", "models", "limits", "rewrite", "usage"];
/** Names of the two observing plugins: before all others, and after them. */
const [FIRST_OBSERVER, LAST_OBSERVER] = ["test-begins", "test-ends"] as const;

/** The providers' side of each test, by its mark. */
type TestResponders = Map<string, TestResponder & { failed(thrown: unknown): void }>;

/** Exchanges of tests by mark, and marks by exchange. */
interface Marks {
  exchanges: Map<string, Exchange>;
  names: WeakMap<object, string>;
}

/**
 * Starts a gateway with one plugin under test, without sockets: the engine, the other plugins of the chain and HTTP on both sides
 * are the real ones, in this process.
 * @throws Error about options, chain or class, as `check` would report it
 */
export async function drive(Class: PluginClass, driving: DriveOptions = {}): Promise<TestGateway> {
  const { folder = process.cwd(), env = {} } = driving;
  const name = driving.name ?? kebabName(Class);
  const marks: Marks = { exchanges: new Map(), names: new WeakMap() };
  const extensions = await findExtensions(folder);
  const own = new Map<string, PluginClass>([[name, Class], ...observerPlugins(marks)]);
  const config = await loadConfig(
    join(folder, "gateway.yaml"),
    withTestPlugins(extensions, own),
    env,
    folder,
    gatewayYaml(name, Class, driving, extensions.protocolList),
  );
  const log = new MemoryLog();
  const parts: TestResponders = new Map();
  const provider = new ScriptedProvider(extensions.protocolList, parts);
  const pools = new Pools({ environment: {}, connectInProcess: () => provider.connect() });
  const gateway = await Gateway.open(new LoadedConfig(config, extensions, env), log, { pools });
  return new DrivenGateway(
    gateway,
    log,
    name,
    new Map(extensions.protocolList.map((each) => [each.name, each])),
    parts,
    marks.exchanges,
  );
}

/** A plugin in its gateway. */
export interface TestGateway extends AsyncDisposable {
  /** The plugin itself. */
  readonly plugin: Plugin;
  /** Names of the protocols with conversations, for which a text is enough as request and answer. */
  readonly protocols: readonly string[];
  /** Log lines so far. */
  readonly log: readonly LogLine[];
  /** Rows of the ledger so far, newest first. */
  ledger(): Promise<readonly LedgerEntry[]>;
  /**
   * Sends a request through the gateway, and waits until it has ended and all plugins have recorded it. Requests may run
   * concurrently.
   * @param answer of the providers; absent: they echo the user's last message
   * @throws Error where the provider's script fails, or the request cannot be built
   */
  ask(request: TestRequest, answer?: ProviderScript): Promise<TestResult>;
  /** Stops the gateway, which closes the plugin. `await using` does the same. */
  close(): Promise<void>;
}

class DrivenGateway implements TestGateway {
  private asked = 0;
  private closed: Promise<void> | undefined;

  constructor(
    private readonly gateway: Gateway,
    private readonly memoryLog: MemoryLog,
    private readonly name: string,
    private readonly protocolsByName: ReadonlyMap<string, Protocol>,
    /** The providers' side of running requests. */
    private readonly responders: TestResponders,
    private readonly exchanges: Map<string, Exchange>,
  ) {}

  get plugin(): Plugin {
    const links = this.gateway.generation.paths.mounts.flatMap(({ chain }) => chain.links);
    return links.find(({ name }) => name === this.name)?.plugin as Plugin;
  }

  get protocols(): readonly string[] {
    return [...this.protocolsByName.values()].filter(isTranslatable).map(({ name }) => name);
  }

  get log(): readonly LogLine[] {
    return this.memoryLog.lines;
  }

  async ledger(): Promise<readonly LedgerEntry[]> {
    const { ledger } = this.gateway.stores;
    await ledger.flush();
    return ledger.recent(1000);
  }

  async ask(request: TestRequest, answer: ProviderScript = {}): Promise<TestResult> {
    const protocol = this.protocolsByName.get(request.protocol);
    if (!protocol)
      throw new Error(
        `There is no protocol "${request.protocol}"; there are ${[...this.protocolsByName.keys()].join(", ")}.`,
      );
    const { key = TEST_KEY, chunkBytes, stream = false } = request;
    const mark = String(++this.asked);
    const sent: SentRequest[] = [];
    let failure: unknown;
    this.responders.set(mark, {
      chunkBytes,
      failed: (thrown) => (failure = thrown),
      answer: async (each) => {
        const scripted = await scriptedAnswer(answer, each, sent.push(each) - 1);
        return typeof scripted === "string" ? { text: scripted } : scripted;
      },
    });
    const test = encodeTest(protocol, request);
    const shown = key === null ? [] : [protocol.credential(key)];
    const headers = { host: "gateway.test", ...Object.fromEntries(shown), ...test.headers, [MARK_HEADER]: mark };
    const [near, far] = socketPair();
    const getting = sendTest(near, { ...test, headers }, request);
    this.gateway.accept(far);
    const got = await getting;
    while (this.gateway.exchanges.some(({ exchange }) => exchange === this.exchanges.get(mark))) await turn();
    const exchange = this.exchanges.get(mark);
    this.exchanges.delete(mark);
    this.responders.delete(mark);
    if (failure !== undefined) throw failure;
    return resultOf({ protocol, got, sent, stream, exchange });
  }

  close(): Promise<void> {
    this.closed ??= this.gateway.stop({ linger: 0, drain: 0 });
    return this.closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

function scriptedAnswer(script: ProviderScript, sent: SentRequest, at: number) {
  if (typeof script === "function") return script(sent);
  if (!Array.isArray(script)) return script as string | ProviderAnswer;
  return (script[Math.min(at, script.length - 1)] ?? {}) as string | ProviderAnswer;
}

function resultOf({
  protocol,
  got,
  sent,
  stream,
  exchange,
}: {
  protocol: Protocol;
  got: ClientResponse;
  sent: SentRequest[];
  stream: boolean;
  exchange: Exchange | undefined;
}): TestResult {
  const { error, outcome } = exchange ?? {};
  return {
    ...got,
    ...responseContent(protocol, got, stream),
    json: () => JSON.parse(got.body.toString()) as unknown,
    events: responseFrames(got, stream).flatMap((frame) => frame.json() ?? []),
    sent,
    outcome,
    error: error && { code: error.code, status: error.status, message: error.message, origin: error.origin },
  };
}

/** Converts `RouteByTeam` to `route-by-team`. */
const kebabName = (Class: PluginClass): string =>
  (Class as { name?: string }).name?.replaceAll(/(?<=[a-z0-9])(?=[A-Z])/g, "-").toLowerCase() || "plugin";

/** Adds plugins under test to the extensions, as they have no file. */
function withTestPlugins(extensions: LoadedExtensions, own: ReadonlyMap<string, PluginClass>): LoadedExtensions {
  const { plugin } = extensions;
  extensions.plugin = async (name, from, folder) => {
    const Class = own.get(name);
    if (!Class) return plugin.call(extensions, name, from, folder);
    extensions.classes.set(name, { file: `the test of ${name}`, Class });
    return knownPlugin(Class);
  };
  return extensions;
}

/**
 * Returns the two observing plugins: the first identifies a test's exchange by its mark and removes the mark; the last sends it
 * to the provider.
 */
function observerPlugins({ exchanges, names }: Marks): [string, PluginClass][] {
  class Begins implements Plugin {
    access: NonNullable<Plugin["access"]> = (exchange) => {
      const mark = exchange.headers.get(MARK_HEADER);
      if (mark === undefined) return;
      exchange.headers.delete(MARK_HEADER);
      exchanges.set(mark, exchange as Exchange);
      names.set(exchange, mark);
    };
  }
  class Ends implements Plugin {
    send: NonNullable<Plugin["send"]> = (exchange, attempt) => {
      attempt.headers.set(MARK_HEADER, names.get(exchange) ?? "");
    };
  }
  return [
    [FIRST_OBSERVER, Begins as PluginClass],
    [LAST_OBSERVER, Ends as PluginClass],
  ];
}

/** Returns the gateway.yaml of a gateway under test. */
function gatewayYaml(
  name: string,
  { before = [], after = [], twice = false }: PluginClass,
  {
    options = {},
    gateway = {},
    chain = twice ? [name, ...DEFAULT_CHAIN, name] : chainWith(name, before, after),
  }: DriveOptions,
  protocols: readonly Protocol[],
): string {
  const spoken = protocols.filter(isTranslatable).map((protocol) => protocol.name);
  const all = protocols.filter(({ paths, socket }) => paths.length > 0 && !socket).map((protocol) => protocol.name);
  const names = { any: all, ...Object.fromEntries(spoken.map((each) => [each, [each]])) };
  const each = <T>(of: (name: string, speaks: string[]) => T) =>
    Object.fromEntries(Object.entries(names).map(([name, speaks]) => [name, of(name, speaks)]));
  const section = (name: string) => gateway[name] as Record<string, unknown> | undefined;
  // They would be ignored.
  if (section("chains")?.["llm"] !== undefined) throw new Error("gateway.chains.llm: give it as chain.");
  if (section("plugins")?.[name] !== undefined) throw new Error(`gateway.plugins.${name}: give it as options.`);
  const sections = {
    admin: "off",
    pages: "off",
    overload: { delay: "off" },
    store: { ledger: "sqlite::memory:" },
    ...gateway,
    keys: { test: { key: TEST_KEY }, ...section("keys") },
    providers: {
      ...each((provider, speaks) => ({ url: `http://${provider}.test`, speaks })),
      ...section("providers"),
    },
    models: { ...each((model) => ({ targets: [`${model}:vendors-model`] })), ...section("models") },
    plugins: { ...section("plugins"), [name]: options },
    chains: { ...section("chains"), llm: [FIRST_OBSERVER, ...chain, LAST_OBSERVER] },
  };
  return JSON.stringify(sections, undefined, 2);
}

/** Returns the usual chain with a plugin before `rewrite`, or where its `before` and `after` require it. */
function chainWith(name: string, before: readonly string[], after: readonly string[]): string[] {
  const places = [...before, "rewrite"].map((each) => DEFAULT_CHAIN.indexOf(each)).filter((at) => at >= 0);
  const earliest = after.map((each) => DEFAULT_CHAIN.indexOf(each) + 1);
  return DEFAULT_CHAIN.toSpliced(Math.max(Math.min(...places), ...earliest), 0, name);
}
