import { join } from "node:path";
import { setImmediate as turn } from "node:timers/promises";
import { loadConfig } from "../config/load.ts";
import type { Exchange, Outcome } from "../core/exchange.ts";
import type { Plugin, PluginClass } from "../core/plugin.ts";
import type { Protocol } from "../core/protocol.ts";
import { Gateway } from "../gateway.ts";
import { phasesOf } from "../loader/methods.ts";
import type { LedgerEntry } from "../store/ledger.ts";
import { translates } from "../translation/codec.ts";
import { Pools } from "../upstream/http1/pools.ts";
import { type Words, words } from "../vocabulary.ts";
import {
  framesOf,
  type GotAnswer,
  type SpokenWords,
  sendTest,
  type TestRequest,
  wordsOf,
  writeTest,
} from "./client.ts";
import { type LogLine, MemoryLog } from "./memory-log.ts";
import { socketPair } from "./memory-socket.ts";
import type { ProviderAnswer } from "./provider-answer.ts";
import { MARK, type ProviderPart, ScriptedProvider, type SentRequest } from "./scripted-provider.ts";

/** How a plugin is driven. */
export interface DriveOptions {
  /** Its options, as gateway.yaml would have them. */
  options?: Record<string, unknown>;
  /** Its name in gateway.yaml; the class's own, written so: `RouteByTeam` is `route-by-team`. */
  name?: string;
  /** The chain in which it stands; the usual one, with it in front of `rewrite`, or of what it says it must stand `before`; at both ends if `twice`. */
  chain?: readonly string[];
  /**
   * More of gateway.yaml, section by section: models, providers, keys, limits, other plugins. There is a model `any`, whose
   * provider speaks every protocol, and a model for each protocol that translates, called as it is, whose provider speaks only
   * that.
   */
  gateway?: Record<string, unknown>;
  /** What `$NAME` stands for in all that. */
  env?: Record<string, string>;
  /** Where relative paths in all that start; the working folder. */
  folder?: string;
}

/** What providers answer: to every request, to the first, second, … one (the last one goes on), or as it depends. */
export type ProviderScript =
  | string
  | ProviderAnswer
  | readonly (string | ProviderAnswer)[]
  | ((sent: SentRequest) => string | ProviderAnswer | Promise<string | ProviderAnswer>);

/** What became of a request. */
export interface TestResult extends GotAnswer, SpokenWords {
  /** The answer's body. @throws SyntaxError where it is none */
  // biome-ignore lint/suspicious/noExplicitAny: a test knows what it looks for
  json(): any;
  /** The JSON of each event of a stream, and of each element of an array. */
  // biome-ignore lint/suspicious/noExplicitAny: a test knows what it looks for
  events: any[];
  /** What providers got, in order; empty where none was asked. */
  sent: SentRequest[];
  /** How the exchange ended; undefined where it was refused before it was one. */
  outcome: Outcome | undefined;
  /** What went wrong, with the plugin and phase that says so. */
  error: { code: string; status: number; message: string; origin: string | undefined } | undefined;
}

/** The key that tests show unless they say another. */
const KEY = "test-key-0123456789abcdef";
/** The usual chain of models, without the plugin. */
const CHAIN = ["sse", "auth", "scrub", "models", "limits", "rewrite", "usage"];
/** Names of the two that watch: in front of everything, and behind. */
const [FIRST, LAST] = ["test-begins", "test-ends"] as const;

/** What providers do for each test, by its mark. */
type ProviderParts = Map<string, ProviderPart & { failed(thrown: unknown): void }>;

/** Exchanges of tests, by their marks, and the other way round. */
interface Marks {
  exchanges: Map<string, Exchange>;
  names: WeakMap<object, string>;
}

/**
 * A gateway with one plugin under test, without a socket: the engine, the other plugins of the chain and HTTP on both sides are the
 * real ones, in this process.
 * @throws Error that says what is wrong with options, chain or class, as `check` would
 */
export async function drive(Class: PluginClass, driving: DriveOptions = {}): Promise<Driven> {
  const { folder = process.cwd(), env = {} } = driving;
  const name = driving.name ?? nameOf(Class);
  const marks: Marks = { exchanges: new Map(), names: new WeakMap() };
  const vocabulary = await words(folder);
  const own = new Map<string, PluginClass>([[name, Class], ...watching(marks)]);
  const config = await loadConfig(
    join(folder, "gateway.yaml"),
    withOwn(vocabulary, own),
    env,
    folder,
    written(name, Class, driving, vocabulary.protocolList),
  );
  const log = new MemoryLog();
  const parts: ProviderParts = new Map();
  const provider = new ScriptedProvider(vocabulary.protocolList, parts);
  const pools = new Pools({ environment: {}, within: () => provider.connect() });
  const gateway = await Gateway.open({ config, vocabulary, env }, log, 1, undefined, pools);
  return new DrivenGateway(
    gateway,
    log,
    name,
    new Map(vocabulary.protocolList.map((each) => [each.name, each])),
    parts,
    marks.exchanges,
  );
}

/** A plugin in its gateway. */
export interface Driven extends AsyncDisposable {
  /** The plugin itself. */
  readonly plugin: Plugin;
  /** Names of the protocols that hold conversations, so that a text is enough to ask and to answer. */
  readonly protocols: readonly string[];
  /** What was logged so far. */
  readonly log: readonly LogLine[];
  /** Rows of the ledger so far, the last first. */
  ledger(): Promise<readonly LedgerEntry[]>;
  /**
   * Sends a request through the gateway, and waits until it has ended and all plugins have recorded it. Several may run at a time.
   * @param answer what providers say; absent: they repeat what the user said last
   * @throws Error where the provider's script fails, or the request cannot be written
   */
  ask(request: TestRequest, answer?: ProviderScript): Promise<TestResult>;
  /** Stops the gateway: the plugin is closed. `await using` does the same. */
  close(): Promise<void>;
}

class DrivenGateway implements Driven {
  private asked = 0;
  private closed: Promise<void> | undefined;

  constructor(
    private readonly gateway: Gateway,
    private readonly memory: MemoryLog,
    private readonly name: string,
    private readonly known: ReadonlyMap<string, Protocol>,
    /** What providers do for requests that run. */
    private readonly parts: ProviderParts,
    private readonly exchanges: Map<string, Exchange>,
  ) {}

  get plugin(): Plugin {
    const links = this.gateway.generation.paths.mounts.flatMap(({ chain }) => chain.links);
    return links.find(({ name }) => name === this.name)?.plugin as Plugin;
  }

  get protocols(): readonly string[] {
    return [...this.known.values()].filter(translates).map(({ name }) => name);
  }

  get log(): readonly LogLine[] {
    return this.memory.lines;
  }

  async ledger(): Promise<readonly LedgerEntry[]> {
    const { ledger } = this.gateway.stores;
    await ledger.flush();
    return ledger.recent(1000);
  }

  async ask(request: TestRequest, answer: ProviderScript = {}): Promise<TestResult> {
    const protocol = this.known.get(request.protocol);
    if (!protocol)
      throw new Error(`There is no protocol "${request.protocol}"; there are ${[...this.known.keys()].join(", ")}.`);
    const { key = KEY, cut, stream = false } = request;
    const mark = String(++this.asked);
    const sent: SentRequest[] = [];
    let failure: unknown;
    this.parts.set(mark, {
      cut,
      failed: (thrown) => (failure = thrown),
      answer: async (each) => {
        const told = await scripted(answer, each, sent.push(each) - 1);
        return typeof told === "string" ? { text: told } : told;
      },
    });
    const test = writeTest(protocol, request);
    const shown = key === null ? [] : [protocol.credential(key)];
    const headers = { host: "gateway.test", ...Object.fromEntries(shown), ...test.headers, [MARK]: mark };
    const [near, far] = socketPair();
    this.gateway.accept(far);
    const got = await sendTest(near, { ...test, headers }, request);
    while (this.gateway.exchanges.some(({ exchange }) => exchange === this.exchanges.get(mark))) await turn();
    const exchange = this.exchanges.get(mark);
    this.exchanges.delete(mark);
    this.parts.delete(mark);
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

function scripted(script: ProviderScript, sent: SentRequest, at: number) {
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
  got: GotAnswer;
  sent: SentRequest[];
  stream: boolean;
  exchange: Exchange | undefined;
}): TestResult {
  const { error, outcome } = exchange ?? {};
  return {
    ...got,
    ...wordsOf(protocol, got, stream),
    json: () => JSON.parse(got.body.toString()) as unknown,
    events: framesOf(got, stream).flatMap((frame) => frame.json() ?? []),
    sent,
    outcome,
    error: error && { code: error.code, status: error.status, message: error.message, origin: error.origin },
  };
}

/** `RouteByTeam` → `route-by-team`. */
const nameOf = (Class: PluginClass): string =>
  (Class as { name?: string }).name?.replaceAll(/(?<=[a-z0-9])(?=[A-Z])/g, "-").toLowerCase() || "plugin";

/** Plugins of a gateway under test, which no file holds. */
function withOwn(vocabulary: Words, own: ReadonlyMap<string, PluginClass>): Words {
  const { plugin } = vocabulary;
  vocabulary.plugin = async (name, from, folder) => {
    const Class = own.get(name);
    if (!Class) return plugin.call(vocabulary, name, from, folder);
    vocabulary.classes.set(name, { file: `the test of ${name}`, Class });
    const { options, after, before, twice } = Class;
    const placed = { ...(after && { after }), ...(before && { before }), ...(twice && { twice }) };
    return { options, phases: phasesOf(Class), ...placed };
  };
  return vocabulary;
}

/** One that knows a test's exchange by its mark, which it takes away; and one that tells the provider. */
function watching({ exchanges, names }: Marks): [string, PluginClass][] {
  class Begins implements Plugin {
    access: NonNullable<Plugin["access"]> = (exchange) => {
      const mark = exchange.headers.get(MARK);
      if (mark === undefined) return;
      exchange.headers.delete(MARK);
      exchanges.set(mark, exchange as Exchange);
      names.set(exchange, mark);
    };
  }
  class Ends implements Plugin {
    send: NonNullable<Plugin["send"]> = (exchange, attempt) => {
      attempt.headers.set(MARK, names.get(exchange) ?? "");
    };
  }
  return [
    [FIRST, Begins as PluginClass],
    [LAST, Ends as PluginClass],
  ];
}

/** The gateway.yaml of a gateway under test. */
function written(
  name: string,
  { before = [], twice = false }: PluginClass,
  { options = {}, gateway = {}, chain = twice ? [name, ...CHAIN, name] : usual(name, before) }: DriveOptions,
  protocols: readonly Protocol[],
): string {
  const spoken = protocols.filter(translates).map((protocol) => protocol.name);
  const all = protocols.filter(({ paths, socket }) => paths.length > 0 && !socket).map((protocol) => protocol.name);
  const names = { any: all, ...Object.fromEntries(spoken.map((each) => [each, [each]])) };
  const each = <T>(of: (name: string, speaks: string[]) => T) =>
    Object.fromEntries(Object.entries(names).map(([name, speaks]) => [name, of(name, speaks)]));
  const sections = {
    admin: "off",
    pages: "off",
    overload: { delay: "off" },
    store: { ledger: "sqlite::memory:" },
    keys: { test: { key: KEY } },
    providers: each((provider, speaks) => ({ url: `http://${provider}.test`, speaks })),
    models: each((model) => ({ targets: [`${model}:vendors-model`] })),
    ...gateway,
    plugins: { ...(gateway["plugins"] as object | undefined), [name]: options },
    chains: { ...(gateway["chains"] as object | undefined), llm: [FIRST, ...chain, LAST] },
  };
  return JSON.stringify(sections, undefined, 2);
}

/** The usual chain with a plugin in front of `rewrite`, or further to the front where it must. */
function usual(name: string, before: readonly string[]): string[] {
  const places = [...before, "rewrite"].map((each) => CHAIN.indexOf(each)).filter((at) => at >= 0);
  return CHAIN.toSpliced(Math.min(...places), 0, name);
}
