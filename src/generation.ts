import type { ServerResponse } from "node:http";
import { setImmediate as nextTurn } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import type { DependencyContainer } from "tsyringe";
import { servesKeyless } from "./config/keyless.ts";
import { configSecrets } from "./config/secrets.ts";
import type { Config, ConfiguredPlugin } from "./config/types.ts";
import { PageFiles } from "./console/page-files.ts";
import { PublicPages } from "./console/public-pages.ts";
import { generationContainer } from "./container.ts";
import { Admission } from "./core/admission.ts";
import type { BufferLimits, BufferMemory } from "./core/buffer-memory.ts";
import { Calendar } from "./core/calendar.ts";
import type { Caller } from "./core/caller.ts";
import { thrownText } from "./core/errors.ts";
import type { LogField } from "./core/exchange-log.ts";
import { Levels, type LimitLevel } from "./core/limits.ts";
import type { Log } from "./core/log.ts";
import { type Marketplace, PROVIDER_SHAPE, type Provider } from "./core/marketplace.ts";
import { type Peers, topic } from "./core/peers.ts";
import type { Plugin } from "./core/plugin.ts";
import type { Protocol } from "./core/protocol.ts";
import { Protocols } from "./core/protocols.ts";
import { Redactor } from "./core/redactor.ts";
import { replaceSecrets } from "./core/replace-secrets.ts";
import { withShape } from "./core/shape.ts";
import { endInTime } from "./core/timeout.ts";
import type { BodyLimits } from "./downstream/body.ts";
import { Cors } from "./downstream/cors.ts";
import { Paths } from "./downstream/paths.ts";
import { sendOwnJson } from "./downstream/reply.ts";
import { knownClients } from "./loader/clients.ts";
import { closePlugin, type LoadedPlugin, makePlugin, startPlugin } from "./loader/instances.ts";
import { PluginError } from "./loader/problems.ts";
import { registrationProblems } from "./loader/registrations.ts";
import { budgetProblems } from "./marketplace/budgets.ts";
import { buildMarketplace } from "./marketplace/marketplace-of.ts";
import { createChain, createMounts, type MountParts, servingProblems } from "./mounts.ts";
import { ObjectAccess } from "./objects/objects.ts";
import { openApiDocument } from "./openapi.ts";
import { Catalogue } from "./prices/catalogue.ts";
import { admissionShare, answerMemoryShare, bodyShare, retryShare } from "./process-shares.ts";
import type { KeptValues } from "./store/kept-values.ts";
import type { Keys } from "./store/keys.ts";
import type { Ledger } from "./store/ledger.ts";
import type { Limiter, LimitStatus } from "./store/limiter.ts";
import type { Owners } from "./store/owners.ts";
import { Translations } from "./translation/translations.ts";
import { Upstreams } from "./upstream/attempts.ts";
import type { ConversationNews } from "./upstream/conversation-targets.ts";
import { Health, type HealthNews } from "./upstream/health.ts";
import type { ProviderRates } from "./upstream/provider-rates.ts";
import { ProviderSlots } from "./upstream/provider-slots.ts";
import { UpstreamProxy } from "./upstream/proxy.ts";
import { RetryBudget } from "./upstream/retry.ts";
import type { SocketLimits } from "./upstream/websocket.ts";
import type { Providers, UpstreamResources } from "./upstream-resources.ts";

/** The parts that a generation is built from. */
interface GenerationOptions extends MountParts {
  process: DependencyContainer;
  keys: Keys;
  values: KeptValues;
  ledger: Ledger;
  limiter: Limiter;
  owners: Owners;
  carried: UpstreamResources;
  /** The previous generation, whose state is kept where its configuration is unchanged. */
  former?: Generation | undefined;
  log: Log;
  /** Number of processes over which connections are spread. */
  processes?: number;
  /** The other processes. */
  peers?: Peers;
  /** Rate limits that providers report, shared by all generations. */
  rates?: ProviderRates;
  /** Whether only requests to explain are served: plugins are started dry. */
  dry?: boolean;
}

/** Without `former`: closures over these parts must not keep the previous generation alive, and through it all earlier ones. */
type BuildContext = Omit<GenerationOptions, "former">;
type FormerGeneration = GenerationOptions["former"];

/** Health of targets and credentials, sent between workers. */
export const HEALTH_TOPIC = topic<HealthNews>("health");
/**
 * Targets that were chosen for conversations, sent between workers. The key is a part of the conversation's hash, so that the primary
 * keeps a limited number of them for workers that start later.
 */
export const CONVERSATIONS_TOPIC = topic<ConversationNews>("conversations");
/**
 * Names of usage that counts once and has been counted, sent between workers. The key is a part of the name, so that the primary
 * keeps a limited number of them for workers that start later.
 */
export const COUNTED_TOPIC = topic<string>("counted");
/** Whether the provider or target of that name is switched off, sent between workers. */
export const SWITCHES_TOPIC = topic<boolean>("switches");

/** Returns the health of targets and credentials, continuing the previous generation's. Processes share what they learn. */
function createHealth(
  { config, log, peers }: BuildContext,
  former: FormerGeneration,
  providers: Providers,
  { models }: Marketplace,
): Health {
  const same = (name: string) => providers.get(name) === former?.providers.get(name);
  const health = new Health(config.keep, log, undefined, former?.upstreams.health, same);
  const targets = models.flatMap((model) => model.targets);
  if (peers) {
    health.share(targets, (news) => peers.publish(HEALTH_TOPIC, `${news.about} ${news.credential ?? ""}`, news));
    // The key is the last characters, as ids of one provider's objects begin alike. A worker that starts later gets one fact of each key.
    health.shareConversations((news) => peers.publish(CONVERSATIONS_TOPIC, news.conversation.slice(-2), news));
  }
  return health;
}

/**
 * Returns admission, provider slots and retry budget, keeping the previous generation's where their configuration is unchanged.
 */
function createCounters({ config, processes }: BuildContext, former: FormerGeneration, providers: Providers) {
  const unchanged = former && isDeepStrictEqual(former.config.overload, config.overload) ? former : undefined;
  const retry = retryShare(config.retry, processes);
  return {
    admission: unchanged?.admission ?? new Admission(admissionShare(config.overload, processes), "The gateway"),
    slots: new ProviderSlots(config.overload, processes, former?.upstreams.slots, providers.values()),
    budget: former && isDeepStrictEqual(former.budget.limits, retry) ? former.budget : new RetryBudget(retry),
  };
}

interface Closer {
  name: string;
  close(): void | Promise<void>;
}

/** What a generation is put together from, and offers as members of its own. */
class GenerationMembers {
  declare readonly config: Config;
  declare readonly providers: Providers;
  declare readonly paths: Paths;
  declare readonly upstreams: Upstreams;
  declare readonly proxy: UpstreamProxy;
  /** What the bodies take that are being received. */
  declare readonly bodies: BufferMemory;
  /** What the temporary files of forms take. */
  declare readonly spools: BufferMemory;
  declare readonly redactor: Redactor;
  declare readonly objects: ObjectAccess;
  declare readonly admission: Admission;
  declare readonly budget: RetryBudget;
  declare readonly limiter: Limiter;
  declare readonly levels: Levels;
  declare readonly marketplace: Marketplace;
  /** The loaded plugins, by name. */
  declare readonly plugins: ReadonlyMap<string, LoadedPlugin>;
  /** Pages for browsers; undefined: off. */
  declare readonly pages: PublicPages | undefined;
  declare readonly log: Log;
  /** All loaded protocols. */
  declare readonly protocols: readonly Protocol[];
  /** The dialect used where nothing shows the caller's. */
  declare readonly common: Protocol;

  constructor(parts: GenerationMembers) {
    Object.assign(this, parts);
  }
}

/** One loaded gateway.yaml: an exchange keeps the generation it began with, which closes when its last one has ended. */
export class Generation extends GenerationMembers {
  private running = 0;
  private begunCount = 0;
  private onIdle: (() => void) | undefined;
  private openApiText: string | undefined;
  private closed: Promise<void> | undefined;
  readonly limits: BodyLimits & { readonly memory: BufferLimits; readonly spool: BufferLimits };
  readonly logFields: readonly LogField[];
  /** Replaces the secrets among plugins' options in a text. */
  readonly maskOptions: (text: string) => string;
  /** The sites whose pages may send requests; undefined: none. */
  readonly cors: Cors | undefined;
  /** Unix milliseconds. */
  readonly startedAt = Date.now();
  /** Unix milliseconds at which its remaining exchanges are broken off; undefined: it serves, or has no limit. */
  endsAt: number | undefined;
  /** Number of this generation among those that have served, from 1. */
  number = 1;

  /**
   * @param processes that share what bodies may take
   * @param closers in the order in which their parts were started
   */
  private constructor(
    parts: GenerationMembers,
    processes: number | undefined,
    private readonly closers: readonly Closer[],
  ) {
    super(parts);
    const { limit: maxBytes, memory, memory_per_key, spool, spool_per_key, ...pace } = parts.config.body;
    this.limits = {
      ...{ maxBytes, ...pace },
      memory: bodyShare(memory, memory_per_key, processes),
      spool: bodyShare(spool, spool_per_key, processes),
    };
    this.logFields = parts.config.log.fields;
    const secrets = new Map([...parts.config.plugins.values()].flatMap(({ secrets = [] }) => [...secrets]));
    this.maskOptions = (text) => replaceSecrets(text, secrets);
    this.cors = parts.config.cors && new Cors(parts.config.cors);
  }

  /**
   * Builds and starts everything, in order; parts already started are closed again when a later one fails.
   * @throws PluginError, or the error of a part's start
   */
  static async build({ former, ...made }: GenerationOptions): Promise<Generation> {
    const { config, protocols, log, carried, classes, keys, values, ledger, limiter, envelopes } = made;
    const closers: Closer[] = [];
    try {
      const redactor = new Redactor(
        configSecrets(config, process.env),
        new Set(config.keys.flatMap(({ hash }) => hash ?? [])),
      );
      const proxy = new UpstreamProxy(carried.pools, carried.agents, carried.messages);
      const providers = await openProviders(made, former);
      carried.hold(providers);
      closers.push({ name: "upstreams", close: () => carried.release(providers) });
      const marketplace = buildMarketplace(config.models, providers, await Catalogue.for(providers.values()));
      const problems = budgetProblems(config, marketplace);
      if (problems.length > 0) throw new PluginError(problems);
      const health = createHealth(made, former, providers, marketplace);
      const levels = new Levels(config.limits, new Calendar(config.timezone));
      const translations = new Translations(new Protocols(protocols), envelopes, marketplace, config.share);
      const objects = new ObjectAccess(made.owners, config.share, providers.values(), envelopes.ids, protocols, health);
      const parts = { keys, values, ledger, levels, limiter, marketplace, health, objects, translations, redactor };
      const container = generationContainer(made.process, parts);
      const plugins = await startPlugins(made, container, closers);
      const chains = new Map(
        [...config.chains].map(([name, names]) => [name, createChain(name, names, plugins, made)]),
      );
      const paths = new Paths(createMounts(made, chains, plugins, providers, levels), protocols, config.pathsOff);
      const common = protocols.find((protocol) => protocol.isDefault) as Protocol;
      const { admission, slots, budget } = createCounters(made, former, providers);
      const upstreams = new Upstreams(proxy, redactor, health, budget, slots, {
        persist: () => ledger.persist(),
        trace: config.trace,
        objects,
        answers: {
          memory: carried.answers,
          limits: answerMemoryShare(config.answers, made.processes),
          maxFrame: config.answers.event,
        },
        ...(made.rates && { rates: made.rates }),
      });
      const pages = await openPages(config, protocols, marketplace, health);
      const lasting = { config, providers, paths, upstreams, proxy, redactor, objects, limiter, levels, marketplace };
      const spoken = { protocols, common };
      const bodies = { bodies: carried.bodies, spools: carried.spools };
      return new Generation(
        { ...lasting, ...bodies, admission, budget, plugins: classes, pages, log, ...spoken },
        made.processes,
        closers,
      );
    } catch (thrown) {
      await closeAll(closers, log);
      throw thrown;
    }
  }

  get sockets(): SocketLimits {
    return { ...this.config.sockets, pace: this.limits };
  }

  /**
   * Returns the state of all limits: of some callers, their groups, the models and the providers, and of all requests without a
   * key, where these can come. Many are read in several turns and queries: during one of them Redis answers nothing else.
   */
  async limitStatuses(callers: readonly Caller[]): Promise<LimitStatus[]> {
    const { config, levels, limiter, marketplace, providers } = this;
    const found = new Map<string, LimitLevel>();
    const add = (some: readonly LimitLevel[]) => {
      for (const level of some) found.set(level.scope, level);
    };
    for (let at = 0; at < callers.length; at += STATUSES_TOGETHER) {
      for (const caller of callers.slice(at, at + STATUSES_TOGETHER)) add(levels.forReport(caller));
      if (callers.length > STATUSES_TOGETHER) await nextTurn();
    }
    const keyless = servesKeyless(config);
    add(levels.forRequest(undefined).filter(({ kind }) => kind !== "key" || keyless));
    add(marketplace.models.flatMap(({ id }) => levels.model(id) ?? []));
    add([...providers.keys()].flatMap((name) => levels.provider(name) ?? []));
    const all = [...found.values()];
    const statuses: LimitStatus[] = [];
    for (let at = 0; at < all.length; at += STATUSES_TOGETHER) {
      if (at > 0) await nextTurn();
      for (const status of await limiter.statuses(all.slice(at, at + STATUSES_TOGETHER))) statuses.push(status);
    }
    return statuses;
  }

  /** Number of exchanges that have begun. */
  get begun(): number {
    return this.begunCount;
  }

  /** Number of exchanges that have not ended. */
  get active(): number {
    return this.running;
  }

  /** Counts an exchange that begins. */
  hold(): void {
    this.running++;
    this.begunCount++;
  }

  /** Counts an exchange that has ended. */
  release(): void {
    this.running--;
    if (this.running === 0) this.onIdle?.();
  }

  /**
   * Responds to GET / and to the check that some clients send first with a summary, and to `/openapi.json` with the full
   * description.
   */
  sendSummary(response: ServerResponse, id: string, path: string): void {
    if (path === "/openapi.json")
      this.openApiText ??= `${JSON.stringify(openApiDocument(this.paths.mounts, this.pages !== undefined), null, 2)}\n`;
    const served = { service: "model-gateway", paths: this.paths.servedPaths() };
    const body = path === "/openapi.json" ? (this.openApiText ?? "") : `${JSON.stringify(served, null, 2)}\n`;
    // Browsers get a page at the same URL: a cache must not mix the two.
    response.appendHeader("vary", "accept");
    const lines = ["x-request-id", id, "cache-control", "no-store"];
    // The rest of a request that should have had no body is not read.
    sendOwnJson(response, { status: 200, lines, body: Buffer.from(body), lingers: false });
  }

  /**
   * Waits for its last exchange, then closes its parts in reverse order, even when one of them throws or never ends.
   * @param waiting false: exchanges still running are given up, because nothing can end them
   */
  close(waiting = true): Promise<void> {
    if (!waiting) this.onIdle?.();
    this.closed ??= this.end(waiting);
    return this.closed;
  }

  private async end(waiting: boolean): Promise<void> {
    if (waiting && this.running > 0) await new Promise<void>((idle) => (this.onIdle = idle));
    await closeAll(this.closers, this.log);
  }
}

/** Milliseconds for a part to close. */
const CLOSE_TIMEOUT = 5000;
/** Limits that are read in one turn of the event loop, and in one query. */
const STATUSES_TOGETHER = 500;

async function closeAll(closers: readonly Closer[], log: Log): Promise<void> {
  for (const { name, close } of closers.toReversed()) {
    try {
      await endInTime(CLOSE_TIMEOUT, close(), () => new Error(`not closed after ${CLOSE_TIMEOUT / 1000} s`));
    } catch (thrown) {
      log.error({ part: name, cause: thrownText(thrown) }, "could not be closed");
    }
  }
}

/** Returns the pages of the public side; undefined if they are off. */
async function openPages(
  { pages, paths }: Config,
  protocols: readonly Protocol[],
  marketplace: Marketplace,
  health: Health,
): Promise<PublicPages | undefined> {
  if (!pages) return undefined;
  // Of several paths of a protocol the first one is used.
  const first = new Map(paths.toReversed().flatMap(({ path, protocol }) => (protocol ? [[protocol, path]] : [])));
  const serves = paths.flatMap(({ path, serve }) => (serve ? [path] : []));
  const facts = { marketplace, health, protocols, paths: first, serves, clients: knownClients };
  return new PublicPages(await PageFiles.shared(), facts);
}

/**
 * Returns the enabled providers by name; `demo:` becomes the URL of a server in this process. An unchanged provider is the same
 * object as before.
 */
async function openProviders(
  { config, protocols, carried }: BuildContext,
  former: FormerGeneration,
): Promise<Map<string, Provider>> {
  const providers = new Map<string, Provider>();
  const overSockets = protocols.flatMap(({ name, socket }) => (socket ? [name] : []));
  for (const { url, off, websocket, ...configured } of config.providers) {
    if (off !== undefined) continue;
    const { name } = configured;
    const plain = configured.speaks.filter((each) => !overSockets.includes(each));
    const speaks = websocket ? [...plain, ...overSockets] : url === "demo:" ? plain : configured.speaks;
    const address = url === "demo:" ? await carried.demo(name) : url;
    const provider = withShape(PROVIDER_SHAPE, { ...configured, speaks, url: address });
    const before = former?.providers.get(name);
    providers.set(name, before && JSON.stringify(before) === JSON.stringify(provider) ? before : provider);
  }
  return providers;
}

/** Creates and starts one instance of each plugin that a chain or a served path names, shared by all chains. */
async function startPlugins(
  made: BuildContext,
  container: DependencyContainer,
  closers: Closer[],
): Promise<Map<string, Plugin>> {
  const { config, classes } = made;
  const served = config.paths.flatMap(({ serve }) => serve ?? []);
  const plugins = new Map<string, Plugin>();
  for (const name of new Set([...[...config.chains.values()].flat(), ...served])) {
    const { options, place, secrets } = config.plugins.get(name) as ConfiguredPlugin;
    const loaded = { ...(classes.get(name) as LoadedPlugin), place, secrets };
    const plugin = makePlugin(container, loaded, options);
    await startPlugin(plugin, loaded, made.dry === true);
    if (plugin.close) closers.push({ name, close: () => closePlugin(plugin, loaded) });
    plugins.set(name, plugin);
  }
  const used = [...plugins.keys()].map((name) => classes.get(name) as LoadedPlugin);
  const problems = [...servingProblems(config.paths, classes, plugins), ...registrationProblems(used)];
  if (problems.length > 0) throw new PluginError(problems);
  return plugins;
}
