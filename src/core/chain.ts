import type { Attempt } from "./attempt.ts";
import { checkedStage, untranslatedStage } from "./checked-stage.ts";
import type { GatewayError } from "./errors.ts";
import type { Exchange } from "./exchange.ts";
import type { FailedAnswer, Head } from "./head.ts";
import { checkCaller, checkUnlimited } from "./key-scope.ts";
import { LIMIT_PLUGINS } from "./limits.ts";
import { type MaybePromise, PHASES, type Phase, type Plugin } from "./plugin.ts";
import {
  checkAddress,
  checkNoAnswer,
  checkNotices,
  checkRead,
  checkReplyHeaders,
  checkStatus,
  removeBrokenUsage,
} from "./plugin-checks.ts";
import { awaitDone, awaitPlugin, isThenable, type PluginDeadline, toPluginError } from "./plugin-deadline.ts";
import { type PhaseObserver, type RunPhase, timedStage, timePhase } from "./plugin-timing.ts";
import { readThroughStages } from "./read-through-stages.ts";
import type { Stage } from "./stage.ts";
import { streamCheck } from "./stream-check.ts";

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

/** Number of calls that are all timed after something has blocked the event loop: the cause usually repeats. */
const TIMED_AFTER_BLOCK = 200;

/** One phase of one plugin. */
interface Step<Run> extends PluginDeadline {
  /** The plugin's name. */
  readonly name: string;
  /** The plugin's index in the chain. */
  readonly index: number;
  /** Called with `plugin` as `this`: a bound function takes longer. */
  readonly run: Run;
  readonly plugin: Plugin;
  readonly isBuiltIn: boolean;
  /** Receives reports of its stages, where they are timed. */
  readonly observer: PhaseObserver | undefined;
}

type Respond = (exchange: Exchange, head: Head) => MaybePromise<Stage | undefined>;

/** The plugins of a path by phase: in list order for the request, in reverse order for the response. */
export class Chain {
  private readonly steps: PhaseSteps;
  /** The same steps, with timing. */
  private readonly timedSteps: PhaseSteps;
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

  /** Returns the steps of all phases for the next call, which is timed or not. */
  private nextCall(): PhaseSteps {
    if (Chain.timedCallsLeft > 0) Chain.timedCallsLeft--;
    else if (this.callsUntilTimed-- > 0) return this.steps;
    else this.callsUntilTimed = TIMED_ONE_IN - 1;
    return this.timedSteps;
  }

  access(exchange: Exchange): MaybePromise<void> {
    return runSteps(this.nextCall().access, 0, exchange);
  }

  request(exchange: Exchange): MaybePromise<void> {
    return runSteps(this.nextCall().request, 0, exchange);
  }

  route(exchange: Exchange): MaybePromise<void> {
    return runSteps(this.nextCall().route, 0, exchange);
  }

  send(exchange: Exchange, attempt: Attempt): MaybePromise<void> {
    return runSteps(this.nextCall().send, 0, exchange, attempt);
  }

  /** Whether a plugin handles responses that are not passed to the client. */
  get hasFailedPhase(): boolean {
    return this.steps.failed.length > 0;
  }

  /** Never throws, nor rejects: plugins only observe, and the next step is already decided. */
  failed(exchange: Exchange, attempt: Attempt, answer: FailedAnswer): MaybePromise<void> {
    return runObserving(this.nextCall().failed, 0, exchange, attempt, answer);
  }

  /**
   * Returns stages in the order in which frames pass them. A plugin's own response passes only those of the plugins before it.
   */
  response(exchange: Exchange, head: Head): MaybePromise<Stage[]> {
    const { answerer } = exchange;
    exchange.head = head;
    const responding = this.nextCall().response;
    const steps = answerer ? responding.filter(({ index }) => index < answerer.index) : responding;
    return collectStages(steps, 0, exchange, head, []);
  }

  /** Runs every plugin's `done`, even if another one throws. Returns one of the errors, for the log. */
  done(exchange: Exchange): MaybePromise<GatewayError | undefined> {
    exchange.end();
    return runDone(this.nextCall().done, exchange, this.observer);
  }
}

/** The steps of each phase, in the order in which they run. */
type PhaseSteps = Readonly<
  Record<Exclude<Phase, "response">, readonly Step<RunPhase>[]> & { response: readonly Step<Respond>[] }
>;

/** @param observer receives the duration of each step */
function buildSteps(links: readonly Link[], serving: Link | undefined, observer?: PhaseObserver): PhaseSteps {
  const stepIn = (link: Link, index: number, phase: string, run: RunPhase): Step<RunPhase> => {
    const { name, plugin, deadline = PHASE_DEADLINE, isBuiltIn = false } = link;
    const timed = observer ? timePhase(observer, name, phase, run) : run;
    return { name, origin: `${name}.${phase}`, index, run: timed, plugin, deadline, isBuiltIn, observer };
  };
  const of = (phase: Phase) =>
    links.flatMap((link, index) => {
      const run = link.plugin[phase];
      return run ? [stepIn(link, index, phase, run as RunPhase)] : [];
    });
  const steps = Object.fromEntries(PHASES.map((phase) => [phase, of(phase)])) as Record<Phase, Step<RunPhase>[]>;
  const missing = serving ? [] : LIMIT_PLUGINS.filter((name) => links.every((link) => link.name !== name));
  const check = missing.length === 0 ? checkCallerOf : checkUnlimitedCaller(missing);
  steps.access = steps.access.flatMap((step) => [step, { ...step, run: check }]);
  if (serving) steps.access.push(stepIn(serving, links.length, "serve", serveAsPhase(serving.plugin)));
  return { ...steps, response: steps.response.toReversed() as Step<unknown>[] as Step<Respond>[] };
}

/** Checks the caller that a plugin has set, before any other one sees it: what a key allows is the engine's business. */
const checkCallerOf: RunPhase = (exchange) => {
  if (exchange.caller) checkCaller(exchange.caller, exchange);
};

/** Checks in addition that the caller has no limits, as the chain lacks plugins that would enforce them. */
const checkUnlimitedCaller =
  (missing: readonly string[]): RunPhase =>
  (exchange) => {
    checkCallerOf(exchange);
    if (exchange.caller) checkUnlimited(exchange.caller, exchange.path, missing);
  };

/** Wraps `serve` as a phase that always responds. */
function serveAsPhase(plugin: Plugin): RunPhase {
  return async (exchange) => {
    exchange.answer = (await plugin.serve?.(exchange)) ?? { status: 404, body: "" };
  };
}

// Most plugins are synchronous: unless one returns a promise, no promise is created and no timer is set.

function runSteps(
  steps: readonly Step<RunPhase>[],
  from: number,
  exchange: Exchange,
  attempt?: Attempt,
  answer?: FailedAnswer,
): MaybePromise<void> {
  for (let i = from; i < steps.length; i++) {
    const step = steps[i] as Step<RunPhase>;
    const headersBefore = exchange.replyHeaders.length;
    let result: MaybePromise<void>;
    try {
      result = step.run.call(step.plugin, exchange, attempt, answer);
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
  steps: readonly Step<RunPhase>[],
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
function endStep(
  exchange: Exchange,
  step: Step<RunPhase>,
  headersBefore: number,
  attempt: Attempt | undefined,
): boolean {
  const { name, index, deadline, origin, isBuiltIn } = step;
  if (!isBuiltIn) checkReplyHeaders(exchange, headersBefore, step);
  checkNotices(exchange, step);
  if (exchange.hasUnreplacedText) throw toPluginError(exchange.unreplacedReason(), origin);
  // A plugin may assign what a store that has none gives: null.
  exchange.answer ??= undefined;
  if (attempt) {
    checkNoAnswer(exchange, undefined, step);
    if (!isBuiltIn) checkAddress(attempt, step);
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
      made = step.run.call(step.plugin, exchange, head);
    } catch (thrown) {
      throw toPluginError(thrown, step.origin);
    }
    if (isThenable(made))
      return awaitPlugin(made, step, { head, exchange }).then((stage) => {
        endResponseStep(exchange, head, step, answer, headersBefore);
        if (stage) addStage(stages, stage, step, exchange, head);
        return collectStages(steps, i + 1, exchange, head, stages);
      });
    endResponseStep(exchange, head, step, answer, headersBefore);
    if (made) addStage(stages, made, step, exchange, head);
  }
  return stages;
}

/** Checks what a plugin's `response` has left behind. */
function endResponseStep(
  exchange: Exchange,
  head: Head,
  step: Step<Respond>,
  answerBefore: Exchange["answer"],
  headersBefore: number,
): void {
  checkStatus(head, step);
  checkRead(head, step);
  checkNoAnswer(exchange, answerBefore, step);
  checkReplyHeaders(exchange, headersBefore, step);
  checkNotices(exchange, step);
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
  steps: readonly Step<RunPhase>[],
  exchange: Exchange,
  observer: PhaseObserver | undefined,
): MaybePromise<GatewayError | undefined> {
  let first: GatewayError | undefined;
  const pending: Promise<GatewayError | undefined>[] = [];
  const fail = ({ name, origin }: Step<RunPhase>, thrown: unknown): void => {
    observer?.onDoneFailed(name);
    first ??= toPluginError(thrown, origin);
  };
  const brokenBefore = removeBrokenUsage(exchange);
  if (brokenBefore) exchange.usageError ??= brokenBefore.message;
  for (const step of steps) {
    try {
      const result = step.run.call(step.plugin, exchange);
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
    const broken = step.isBuiltIn ? undefined : removeBrokenUsage(exchange);
    if (broken) fail(step, broken);
  }
  if (pending.length === 0) return first;
  return Promise.all(pending).then((failures) => first ?? failures.find((failure) => failure !== undefined));
}
