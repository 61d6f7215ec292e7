import { Frame } from "../wire/frame.ts";
import { TOKEN } from "../wire/header-names.ts";
import { checkHeaderLines, isSendableInPath } from "../wire/headers.ts";
import type { Attempt } from "./attempt.ts";
import { GatewayError } from "./errors.ts";
import type { Exchange } from "./exchange.ts";
import { type FailedAnswer, type Head, isFinalStatus } from "./head.ts";
import { checkCaller, checkUnlimited } from "./key-scope.ts";
import { LIMIT_PLUGINS } from "./limits.ts";
import { keepTexts } from "./notices.ts";
import { type MaybePromise, PHASES, type Phase, type Plugin } from "./plugin.ts";
import { readThroughStages } from "./read-through-stages.ts";
import type { Stage } from "./stage.ts";
import { streamCheck } from "./stream-check.ts";
import { checkUsage } from "./usage.ts";

/** A plugin in its chain, under the name gateway.yaml gives it. */
export interface Link {
  name: string;
  plugin: Plugin;
  /** Milliseconds that one of its phases may take if it returns a promise; 0: no limit; undefined: the default. */
  deadline?: number | undefined;
  /** Whether it belongs to the gateway: its stages set the length of a whole answer themselves where they change it. */
  isBuiltIn?: boolean | undefined;
}

/** Default milliseconds for a phase of a plugin. */
const PHASE_DEADLINE = 10_000;

/** One of so many calls is timed. A prime, so that every phase is timed in turn, however many there are. */
const TIMED_ONE_IN = 17;

/** Receives the durations of phases, and failures to record. */
export interface PhaseObserver {
  /**
   * Reports the duration of a timed call.
   * @param hook the phase, or `serve`
   * @param ms of one call in 17
   */
  onDuration(plugin: string, hook: string, ms: number): void;
  /** Reports that a plugin's `done` has thrown, or did not end in time. */
  onDoneFailed(plugin: string): void;
  /** Reports a timed call that blocked the event loop for more than 50 ms: up to its first `await`, or a stage for one frame. */
  onBlocked(plugin: string, hook: string, ms: number): void;
}

/** Milliseconds that a call may block the event loop, during which nothing else is served. */
export const BLOCKING_MS = 50;
/** Number of calls that are all timed after something has blocked the event loop: the cause usually repeats. */
const TIMED_AFTER_BLOCK = 200;
/** One of so many frames of a stage is timed, and the last: a stage that blocks the loop does it again. */
const FRAMES_PER_TIMING = 16;

/** The origin of a promise, and its deadline. */
export interface PluginDeadline {
  /** Plugin and phase, like `auth.access`. */
  readonly origin: string;
  /** Milliseconds; 0: no limit. */
  readonly deadline: number;
}

/** One phase of one plugin. */
interface Step<Run> extends PluginDeadline {
  /** The plugin's name. */
  readonly name: string;
  /** The plugin's index in the chain. */
  readonly index: number;
  readonly run: Run;
  readonly isBuiltIn: boolean;
  /** Receives reports of its stages, where they are timed. */
  readonly observer: PhaseObserver | undefined;
}

type Run = (exchange: Exchange, attempt?: Attempt, answer?: FailedAnswer) => MaybePromise<void>;
type Respond = (exchange: Exchange, head: Head) => MaybePromise<Stage | undefined>;

/** Reports whether a result must be awaited: a promise, or any other object with a `then`, like queries of database clients. */
export const isThenable = <T>(made: T | PromiseLike<T>): made is PromiseLike<T> =>
  made !== undefined && typeof (made as PromiseLike<T> | null)?.then === "function";

/** The plugins of a path by phase: in list order for the request, in reverse order for the response. */
export class Chain {
  private readonly steps: PhaseSteps;
  /** The same steps, with timing. */
  private readonly timedSteps: PhaseSteps;
  /** Calls until the next one is timed. */
  private callsUntilTimed = 0;
  /** Calls of all chains still to be timed regardless of `callsUntilTimed`. */
  private static timedCallsLeft = 0;

  /** @param serving the plugin that responds on the chain's path itself, after all others have accepted the request */
  constructor(
    readonly name: string,
    readonly links: readonly Link[],
    readonly serving?: Link,
    private readonly observer?: PhaseObserver,
  ) {
    this.steps = buildSteps(links, serving);
    this.timedSteps = observer ? buildSteps(links, serving, observer) : this.steps;
  }

  /** Times all calls for a while, as something has blocked the event loop. */
  static timeAllCalls(): void {
    Chain.timedCallsLeft = TIMED_AFTER_BLOCK;
  }

  /** Returns the steps of a phase, timed or not. */
  private stepsFor<Name extends Phase>(phase: Name): PhaseSteps[Name] {
    if (Chain.timedCallsLeft > 0) Chain.timedCallsLeft--;
    else if (this.callsUntilTimed-- > 0) return this.steps[phase];
    else this.callsUntilTimed = TIMED_ONE_IN - 1;
    return this.timedSteps[phase];
  }

  access(exchange: Exchange): MaybePromise<void> {
    return runSteps(this.stepsFor("access"), 0, exchange);
  }

  request(exchange: Exchange): MaybePromise<void> {
    return runSteps(this.stepsFor("request"), 0, exchange);
  }

  route(exchange: Exchange): MaybePromise<void> {
    return runSteps(this.stepsFor("route"), 0, exchange);
  }

  send(exchange: Exchange, attempt: Attempt): MaybePromise<void> {
    return runSteps(this.stepsFor("send"), 0, exchange, attempt);
  }

  /** Whether a plugin handles responses that are not passed to the client. */
  get hasFailedPhase(): boolean {
    return this.steps.failed.length > 0;
  }

  /** Never throws, nor rejects: plugins only observe, and the next step is already decided. */
  failed(exchange: Exchange, attempt: Attempt, answer: FailedAnswer): MaybePromise<void> {
    return runObserving(this.stepsFor("failed"), 0, exchange, attempt, answer);
  }

  /**
   * Returns stages in the order in which frames pass them. A plugin's own response passes only those of the plugins before it.
   */
  response(exchange: Exchange, head: Head): MaybePromise<Stage[]> {
    const { answerer } = exchange;
    exchange.head = head;
    const responding = this.stepsFor("response");
    const steps = answerer ? responding.filter(({ index }) => index < answerer.index) : responding;
    return collectStages(steps, 0, exchange, head, []);
  }

  /** Runs every plugin's `done`, even if another one throws. Returns one of the errors, for the log. */
  done(exchange: Exchange): MaybePromise<GatewayError | undefined> {
    exchange.end();
    return runDone(this.stepsFor("done"), exchange, this.observer);
  }
}

/** The steps of each phase, in the order in which they run. */
type PhaseSteps = Readonly<
  Record<Exclude<Phase, "response">, readonly Step<Run>[]> & { response: readonly Step<Respond>[] }
>;

/** @param observer receives the duration of each step */
function buildSteps(links: readonly Link[], serving: Link | undefined, observer?: PhaseObserver): PhaseSteps {
  const stepIn = (link: Link, index: number, phase: string, run: Run): Step<Run> => {
    const { name, deadline = PHASE_DEADLINE, isBuiltIn = false } = link;
    const timed = observer ? timePhase(observer, name, phase, run) : run;
    return { name, origin: `${name}.${phase}`, index, run: timed, deadline, isBuiltIn, observer };
  };
  const of = (phase: Phase) =>
    links.flatMap((link, index) => {
      const run = link.plugin[phase];
      return run ? [stepIn(link, index, phase, run.bind(link.plugin) as Run)] : [];
    });
  const steps = Object.fromEntries(PHASES.map((phase) => [phase, of(phase)])) as Record<Phase, Step<Run>[]>;
  const missing = serving ? [] : LIMIT_PLUGINS.filter((name) => links.every((link) => link.name !== name));
  const check = missing.length === 0 ? checkCallerOf : checkUnlimitedCaller(missing);
  steps.access = steps.access.flatMap((step) => [step, { ...step, run: check }]);
  if (serving) steps.access.push(stepIn(serving, links.length, "serve", serveAsPhase(serving.plugin)));
  return { ...steps, response: steps.response.toReversed() as Step<unknown>[] as Step<Respond>[] };
}

/** Checks the caller that a plugin has set, before any other one sees it: what a key allows is the engine's business. */
const checkCallerOf: Run = ({ caller, time, method, path, address }) => {
  if (caller) checkCaller(caller, { time, method, path, address });
};

/** Checks in addition that the caller has no limits, as the chain lacks plugins that would enforce them. */
const checkUnlimitedCaller =
  (missing: readonly string[]): Run =>
  (exchange) => {
    checkCallerOf(exchange);
    if (exchange.caller) checkUnlimited(exchange.caller, exchange.path, missing);
  };

/** Wraps a phase to report its duration. */
function timePhase(observer: PhaseObserver, plugin: string, phase: string, run: Run): Run {
  return (exchange, attempt, answer) => {
    const began = performance.now();
    const took = () => observer.onDuration(plugin, phase, performance.now() - began);
    let result: MaybePromise<void>;
    try {
      result = run(exchange, attempt, answer);
    } catch (thrown) {
      took();
      throw thrown;
    } finally {
      reportBlocking(observer, plugin, phase, began);
    }
    // `then` is called once: some thenables start again with each call.
    if (isThenable(result)) return Promise.resolve(result).finally(took);
    took();
    return result;
  };
}

/**
 * Reports a call that blocked the event loop for too long.
 * @param began `performance.now()` before it
 */
function reportBlocking(observer: PhaseObserver, plugin: string, hook: string, began: number): void {
  const ms = performance.now() - began;
  if (ms > BLOCKING_MS) observer.onBlocked(plugin, hook, ms);
}

/** Wraps `serve` as a phase that always responds. */
function serveAsPhase(plugin: Plugin): Run {
  return async (exchange) => {
    exchange.answer = (await plugin.serve?.(exchange)) ?? { status: 404, body: "" };
  };
}

// Most plugins are synchronous: unless one returns a promise, no promise is created and no timer is set.

function runSteps(
  steps: readonly Step<Run>[],
  from: number,
  exchange: Exchange,
  attempt?: Attempt,
  answer?: FailedAnswer,
): MaybePromise<void> {
  for (let i = from; i < steps.length; i++) {
    const step = steps[i] as Step<Run>;
    const headersBefore = exchange.replyHeaders.length;
    let result: MaybePromise<void>;
    try {
      result = step.run(exchange, attempt, answer);
    } catch (thrown) {
      throw toPluginError(thrown, step.origin);
    }
    if (isThenable(result))
      return awaitPlugin(result, step, { exchange }).then(() =>
        endStep(exchange, step, headersBefore, attempt) ? undefined : runSteps(steps, i + 1, exchange, attempt, answer),
      );
    if (endStep(exchange, step, headersBefore, attempt)) return;
  }
}

/** Runs the steps one after the other, even if one fails. Errors are kept for the log. */
function runObserving(
  steps: readonly Step<Run>[],
  from: number,
  exchange: Exchange,
  attempt: Attempt,
  answer: FailedAnswer,
): MaybePromise<void> {
  for (let i = from; i < steps.length; i++) {
    const noteError = (thrown: unknown): void => {
      // An interruption is no fault of the plugin that is no longer awaited.
      if (thrown !== exchange.interruption) exchange.failedErrors.push(thrown as GatewayError);
    };
    try {
      const result = runSteps(steps.slice(i, i + 1), 0, exchange, attempt, answer);
      if (result) return result.catch(noteError).then(() => runObserving(steps, i + 1, exchange, attempt, answer));
    } catch (thrown) {
      noteError(thrown);
    }
  }
}

/**
 * Checks what a phase has left behind. Returns whether its plugin has responded: plugins after it do not see the request then.
 * @param headersBefore the number of entries in `replyHeaders` before the phase
 */
function endStep(exchange: Exchange, step: Step<Run>, headersBefore: number, attempt: Attempt | undefined): boolean {
  const { name, index, deadline, origin } = step;
  checkReplyHeaders(exchange, headersBefore, step);
  checkNotices(exchange, step);
  if (exchange.hasUnreplacedText) throw toPluginError(exchange.unreplacedReason(), origin);
  // A plugin may assign what a store that has none gives: null.
  exchange.answer ??= undefined;
  if (attempt) {
    checkNoAnswer(exchange, undefined, step);
    checkAddress(attempt, step);
  }
  if (exchange.answer === undefined) return false;
  exchange.answerer = { name, index, deadline, origin: `${name}.answer` };
  return true;
}

function collectStages(
  steps: readonly Step<Respond>[],
  from: number,
  exchange: Exchange,
  head: Head,
  stages: Stage[],
): MaybePromise<Stage[]> {
  const { answer } = exchange;
  for (let i = from; i < steps.length; i++) {
    const step = steps[i] as Step<Respond>;
    const headersBefore = exchange.replyHeaders.length;
    let made: MaybePromise<Stage | undefined>;
    try {
      made = step.run(exchange, head);
    } catch (thrown) {
      throw toPluginError(thrown, step.origin);
    }
    const endStage = (stage: Stage | undefined): void => {
      checkStatus(head, step);
      checkRead(head, step);
      checkNoAnswer(exchange, answer, step);
      checkReplyHeaders(exchange, headersBefore, step);
      checkNotices(exchange, step);
      if (stage) addStage(stages, stage, step, exchange, head);
    };
    if (isThenable(made))
      return awaitPlugin(made, step, { head, exchange }).then((stage) => {
        endStage(stage);
        return collectStages(steps, i + 1, exchange, head, stages);
      });
    endStage(made);
  }
  return stages;
}

/** Throws for a status that cannot be sent, while it is known who has set it. */
function checkStatus({ status }: Head, { origin }: PluginDeadline): void {
  if (!isFinalStatus(status))
    throw toPluginError(new RangeError(`An answer cannot have the status ${status}.`), origin);
}

/** Throws where a plugin still reads the response: what it has taken of it until now would be missing in the client's. */
function checkRead({ isReading }: Head, { origin }: PluginDeadline): void {
  if (isReading) throw toPluginError(new Error("The phase has ended before readBody has: await it."), origin);
}

/**
 * Throws for an answer of a plugin when a provider has been chosen, and takes it away: the provider's answer would be recorded as the
 * plugin's.
 * @param before the answer before the plugin's phase
 */
function checkNoAnswer(exchange: Exchange, before: Exchange["answer"], { origin }: PluginDeadline): void {
  if (exchange.answer === before) return;
  exchange.answer = before;
  throw toPluginError(new TypeError("A plugin answers in access, request or route, and in no later phase."), origin);
}

/**
 * Throws for header lines that cannot be sent, while it is known who has added them, and removes these.
 * @param before the number of entries before the plugin's phase
 */
function checkReplyHeaders({ replyHeaders }: Exchange, before: number, { origin }: PluginDeadline): void {
  if (replyHeaders.length === before) return;
  try {
    checkHeaderLines(replyHeaders);
  } catch (thrown) {
    replyHeaders.splice(before);
    throw toPluginError(thrown, origin);
  }
}

/** Throws for a notice, or the name of something dropped, that is no text, and removes it. */
function checkNotices({ notices, dropped }: Exchange, { origin }: PluginDeadline): void {
  if (notices.length + dropped.length > 0 && keepTexts(notices, dropped))
    throw toPluginError(new TypeError("A notice, or the name of what was dropped, is no text."), origin);
}

/** Throws for a method, path or query that cannot be sent, while it is known who has set it. */
function checkAddress({ method, path, query }: Attempt, { origin }: PluginDeadline): void {
  const isSendable =
    TOKEN.test(method) &&
    (path === undefined || (isSendableInPath(path) && path.startsWith("/"))) &&
    (query === undefined || isSendableInPath(query));
  if (!isSendable)
    throw toPluginError(new TypeError("A plugin has set a method, path or query that cannot be sent."), origin);
}

function addStage(stages: Stage[], stage: Stage, step: Step<Respond>, exchange: Exchange, head: Head): void {
  const { name, origin, isBuiltIn, observer } = step;
  if (stages.length === 0) readThroughStages(head, stages);
  if (!isBuiltIn) head.lengthIsOpen = true;
  const check = isBuiltIn || !head.framing ? undefined : streamCheck(head, origin, exchange.answerProtocol);
  const checked = checkedStage(stage, origin, check);
  // Those of the gateway itself read no texts there.
  const isUntranslated = !isBuiltIn && exchange.attempt && exchange.answerProtocol !== exchange.protocol;
  const one = isUntranslated ? untranslatedStage(checked, exchange) : checked;
  stages.push(observer ? timedStage(one, name, observer) : one);
}

/** Runs the plugins' `done` concurrently: a slow one does not delay the others. */
function runDone(
  steps: readonly Step<Run>[],
  exchange: Exchange,
  observer: PhaseObserver | undefined,
): MaybePromise<GatewayError | undefined> {
  let first: GatewayError | undefined;
  const pending: Promise<GatewayError | undefined>[] = [];
  const fail = ({ name, origin }: Step<Run>, thrown: unknown): void => {
    observer?.onDoneFailed(name);
    first ??= toPluginError(thrown, origin);
  };
  const brokenBefore = removeBrokenUsage(exchange);
  if (brokenBefore) exchange.usageError ??= brokenBefore.message;
  for (const step of steps) {
    try {
      const result = step.run(exchange);
      if (isThenable(result))
        pending.push(
          awaitDone(result, step, exchange).then(
            () => undefined,
            (error: GatewayError) => {
              observer?.onDoneFailed(step.name);
              return error;
            },
          ),
        );
    } catch (thrown) {
      fail(step, thrown);
    }
    const broken = removeBrokenUsage(exchange);
    if (broken) fail(step, broken);
  }
  if (pending.length === 0) return first;
  return Promise.all(pending).then((failures) => first ?? failures.find((failure) => failure !== undefined));
}

/** Removes usage with members that a plugin has replaced by what is no count, and returns the error. */
function removeBrokenUsage(exchange: Exchange): Error | undefined {
  try {
    if (exchange.usage) checkUsage(exchange.usage);
    return undefined;
  } catch (error) {
    exchange.usage = undefined;
    return error as Error;
  }
}

/** Milliseconds that a plugin may still record once the gateway stops waiting. */
const DONE_GRACE = 500;

/** Waits for a plugin's `done`. On a stop it waits no longer than DONE_GRACE, as the plugin's deadline may be infinite. */
function awaitDone(promise: PromiseLike<void>, step: PluginDeadline, exchange: Exchange): Promise<void> {
  const { promise: timeout, reject } = Promise.withResolvers<never>();
  let timer: NodeJS.Timeout | undefined;
  const unsubscribe = exchange.onInterrupt(() => {
    timer = setTimeout(
      () => reject(toPluginError(pluginTimeout({ ...step, deadline: DONE_GRACE }), step.origin)),
      DONE_GRACE,
    );
  });
  return Promise.race([awaitPlugin(promise, step), timeout]).finally(() => {
    clearTimeout(timer);
    unsubscribe();
  });
}

/** What a plugin works on. */
interface AwaitContext {
  /** The response's head: time that the plugin spends reading it whole counts as the provider's. */
  head?: Head;
  /** Once it is interrupted, the plugin is no longer awaited. */
  exchange?: Exchange;
}

/**
 * Awaits a plugin's promise within its deadline.
 * @throws GatewayError what the plugin threw, `plugin_timeout` or `interrupted`; each names plugin and phase
 */
export function awaitPlugin<T>(
  promise: PromiseLike<T>,
  { origin, deadline }: PluginDeadline,
  { head, exchange }: AwaitContext = {},
): Promise<T> {
  return new Promise((resolve, reject) => {
    const expired = () => {
      if (head?.isReading) timer = setTimeout(expired, deadline);
      else reject(toPluginError(pluginTimeout({ origin, deadline }), origin));
    };
    let timer = deadline > 0 ? setTimeout(expired, deadline) : undefined;
    const unsubscribe = exchange?.onInterrupt(() => {
      clearTimeout(timer);
      reject(toPluginError(exchange.interruption, origin));
    });
    const settle = () => {
      clearTimeout(timer);
      unsubscribe?.();
    };
    Promise.resolve(promise).then(
      (value) => {
        settle();
        resolve(value);
      },
      (thrown) => {
        settle();
        reject(toPluginError(thrown, origin));
      },
    );
  });
}

const pluginTimeout = ({ origin, deadline }: PluginDeadline): GatewayError =>
  new GatewayError("plugin_timeout", { message: `${origin} did not end within ${deadline / 1000} s.` });

/**
 * Wraps a stage so that its errors name the plugin; returning anything but frames is an error. The end follows, once and last,
 * whatever it returns for it: stages before it in the chain complete the response then.
 */
const checkedStage =
  (stage: Stage, origin: string, check?: ReturnType<typeof streamCheck>): Stage =>
  (frame) => {
    try {
      const made = stage(frame);
      if (made === undefined || made === frame) return made;
      if (made instanceof Frame || areFrames(made)) {
        const frames = made instanceof Frame ? [made] : made;
        check?.(frame, frames);
        return frame.kind === "end" ? [...frames.filter(({ kind }) => kind !== "end"), frame] : made;
      }
      if ((made as unknown) instanceof Promise) (made as unknown as Promise<unknown>).catch(() => {});
      throw new TypeError("A stage gives frames or nothing, and gives them at once.");
    } catch (thrown) {
      throw toPluginError(thrown, origin);
    }
  };

/** Wraps a stage whose frames are translated after it: it reads their texts in the provider's protocol. */
function untranslatedStage(stage: Stage, exchange: Exchange): Stage {
  return (frame) => {
    exchange.seesUntranslated = true;
    try {
      return stage(frame);
    } finally {
      exchange.seesUntranslated = false;
    }
  };
}

/** Wraps a stage to report when it blocks the event loop. */
function timedStage(stage: Stage, name: string, observer: PhaseObserver): Stage {
  let untimedFrames = 0;
  return (frame) => {
    if (untimedFrames-- > 0 && frame.kind !== "end") return stage(frame);
    untimedFrames = FRAMES_PER_TIMING - 1;
    const began = performance.now();
    try {
      return stage(frame);
    } finally {
      reportBlocking(observer, name, "stage", began);
    }
  };
}

function areFrames(made: unknown): made is readonly Frame[] {
  if (!Array.isArray(made)) return false;
  for (const each of made) if (!(each instanceof Frame)) return false;
  return true;
}

/** Returns any thrown value as a GatewayError that names plugin and phase. */
export function toPluginError(thrown: unknown, origin: string): GatewayError {
  const error = GatewayError.from(thrown, "plugin_failed");
  error.origin ??= origin;
  return error;
}
