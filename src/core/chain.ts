import { Frame } from "../wire/frame.ts";
import { GatewayError } from "./errors.ts";
import { type Attempt, type Exchange, type FailedAnswer, type Head, isFinal } from "./exchange.ts";
import { PHASES, type Phase, type Plugin } from "./plugin.ts";
import type { Stage } from "./stage.ts";
import { wholeBehind } from "./whole-answer.ts";

/** A plugin in its chain, under the name gateway.yaml gives it. */
export interface Link {
  name: string;
  plugin: Plugin;
  /** Milliseconds that one of its phases may take if it returns a promise; 0: no limit; undefined: the default. */
  deadline?: number | undefined;
}

/** Default milliseconds for a phase of a plugin. */
const PHASE_DEADLINE = 10_000;

/** A value, or a promise of it. */
export type Later<T> = T | Promise<T>;

/** One of so many calls is timed. A prime, so that every phase is timed in turn, however many there are. */
const TIMED = 17;

/** Receives the durations of phases, and failures to record. */
export interface PhaseObserver {
  /**
   * Reports the duration of a timed call.
   * @param hook the phase, or `serve`
   * @param ms of one call in 17
   */
  took(plugin: string, hook: string, ms: number): void;
  /** Reports that a plugin's `done` has thrown, or did not end in time. */
  failed(plugin: string): void;
  /** Reports a timed call that blocked the event loop for more than 50 ms: up to its first `await`, or a stage for one frame. */
  blocked(plugin: string, hook: string, ms: number): void;
}

/** Milliseconds that a call may block the event loop, during which nothing else is served. */
export const BLOCKING = 50;
/** Number of calls that are all timed after something has blocked the event loop: the cause usually repeats. */
const SUSPECT = 200;
/** One of so many frames of a stage is timed, and the last: a stage that blocks the loop does it again. */
const LOOKED_AT = 16;

/** The origin of a promise, and its deadline. */
export interface Bound {
  /** Plugin and phase, like `auth.access`. */
  readonly origin: string;
  /** Milliseconds; 0: no limit. */
  readonly deadline: number;
}

/** One phase of one plugin. */
interface Step<Run> extends Bound {
  /** The plugin's name. */
  readonly name: string;
  /** The plugin's index in the chain. */
  readonly at: number;
  readonly run: Run;
  /** Receives reports of its stages, where they are timed. */
  readonly observer: PhaseObserver | undefined;
}

type Run = (exchange: Exchange, attempt?: Attempt, answer?: FailedAnswer) => Later<void>;
type Respond = (exchange: Exchange, head: Head) => Later<Stage | undefined>;

/** Reports whether a result must be awaited: a promise, or any other object with a `then`, like queries of database clients. */
export const isLater = <T>(made: T | PromiseLike<T>): made is PromiseLike<T> =>
  made !== undefined && typeof (made as PromiseLike<T> | null)?.then === "function";

/** The plugins of a path by phase: in list order for the request, in reverse order for the response. */
export class Chain {
  private readonly steps: StepsOf;
  /** The same steps, with timing. */
  private readonly timed: StepsOf;
  /** Calls until the next one is timed. */
  private untimed = 0;
  /** Calls of all chains still to be timed regardless of `untimed`. */
  private static suspects = 0;

  /** @param serving the plugin that responds on the chain's path itself, after all others have accepted the request */
  constructor(
    readonly name: string,
    readonly links: readonly Link[],
    readonly serving?: Link,
    private readonly observer?: PhaseObserver,
  ) {
    this.steps = stepsOf(links, serving);
    this.timed = observer ? stepsOf(links, serving, observer) : this.steps;
  }

  /** Times all calls for a while, as something has blocked the event loop. */
  static suspect(): void {
    Chain.suspects = SUSPECT;
  }

  /** Returns the steps of a phase, timed or not. */
  private of<Name extends Phase>(phase: Name): StepsOf[Name] {
    if (Chain.suspects > 0) Chain.suspects--;
    else if (this.untimed-- > 0) return this.steps[phase];
    else this.untimed = TIMED - 1;
    return this.timed[phase];
  }

  access(exchange: Exchange): Later<void> {
    return onward(this.of("access"), 0, exchange);
  }

  request(exchange: Exchange): Later<void> {
    return onward(this.of("request"), 0, exchange);
  }

  route(exchange: Exchange): Later<void> {
    return onward(this.of("route"), 0, exchange);
  }

  send(exchange: Exchange, attempt: Attempt): Later<void> {
    return onward(this.of("send"), 0, exchange, attempt);
  }

  /** Whether a plugin handles responses that are not passed to the client. */
  get hasFailed(): boolean {
    return this.steps.failed.length > 0;
  }

  failed(exchange: Exchange, attempt: Attempt, answer: FailedAnswer): Later<void> {
    return onward(this.of("failed"), 0, exchange, attempt, answer);
  }

  /**
   * Returns stages in the order in which frames pass them. A plugin's own response passes only those of the plugins before it.
   */
  response(exchange: Exchange, head: Head): Later<Stage[]> {
    const { answerer } = exchange;
    exchange.head = head;
    const responding = this.of("response");
    const steps = answerer ? responding.filter(({ at }) => at < answerer.at) : responding;
    return gather(steps, 0, exchange, head, []);
  }

  /** Runs every plugin's `done`, even if another one throws. Returns one of the errors, for the log. */
  done(exchange: Exchange): Later<GatewayError | undefined> {
    exchange.end();
    return conclude(this.of("done"), exchange, this.observer);
  }
}

/** The steps of each phase, in the order in which they run. */
type StepsOf = Readonly<
  Record<Exclude<Phase, "response">, readonly Step<Run>[]> & { response: readonly Step<Respond>[] }
>;

/** @param observer receives the duration of each step */
function stepsOf(links: readonly Link[], serving: Link | undefined, observer?: PhaseObserver): StepsOf {
  const stepIn = ({ name, deadline = PHASE_DEADLINE }: Link, at: number, phase: string, run: Run): Step<Run> => ({
    name,
    origin: `${name}.${phase}`,
    at,
    run: observer ? timedBy(observer, name, phase, run) : run,
    deadline,
    observer,
  });
  const of = (phase: Phase) =>
    links.flatMap((link, at) => {
      const run = link.plugin[phase];
      return run ? [stepIn(link, at, phase, run.bind(link.plugin) as Run)] : [];
    });
  const steps = Object.fromEntries(PHASES.map((phase) => [phase, of(phase)])) as Record<Phase, Step<Run>[]>;
  if (serving) steps.access.push(stepIn(serving, links.length, "serve", served(serving.plugin)));
  return { ...steps, response: steps.response.toReversed() as Step<unknown>[] as Step<Respond>[] };
}

/** Wraps a phase to report its duration. */
function timedBy(observer: PhaseObserver, plugin: string, phase: string, run: Run): Run {
  return (exchange, attempt, answer) => {
    const began = performance.now();
    const took = () => observer.took(plugin, phase, performance.now() - began);
    let later: Later<void>;
    try {
      later = run(exchange, attempt, answer);
    } catch (thrown) {
      took();
      throw thrown;
    } finally {
      judgeBlocking(observer, plugin, phase, began);
    }
    // `then` is called once: some thenables start again with each call.
    if (isLater(later)) return Promise.resolve(later).finally(took);
    took();
    return later;
  };
}

/**
 * Reports a call that blocked the event loop for too long.
 * @param began `performance.now()` before it
 */
function judgeBlocking(observer: PhaseObserver, plugin: string, hook: string, began: number): void {
  const ms = performance.now() - began;
  if (ms > BLOCKING) observer.blocked(plugin, hook, ms);
}

/** Wraps `serve` as a phase that always responds. */
function served(plugin: Plugin): Run {
  return async (exchange) => {
    exchange.answer = (await plugin.serve?.(exchange)) ?? { status: 404, body: "" };
  };
}

// Most plugins are synchronous: unless one returns a promise, no promise is created and no timer is set.

function onward(
  steps: readonly Step<Run>[],
  from: number,
  exchange: Exchange,
  attempt?: Attempt,
  answer?: FailedAnswer,
): Later<void> {
  for (let i = from; i < steps.length; i++) {
    const step = steps[i] as Step<Run>;
    let later: Later<void>;
    try {
      later = step.run(exchange, attempt, answer);
    } catch (thrown) {
      throw blame(thrown, step.origin);
    }
    if (isLater(later))
      return settled(later, step, { exchange }).then(() =>
        answered(exchange, step) ? undefined : onward(steps, i + 1, exchange, attempt, answer),
      );
    if (exchange.answer !== undefined && answered(exchange, step)) return;
  }
}

/** Reports whether a plugin has responded; plugins after it do not see the request then. */
function answered(exchange: Exchange, { name, at, deadline }: Step<Run>): boolean {
  if (exchange.answer === undefined) return false;
  exchange.answerer = { name, at, deadline, origin: `${name}.answer` };
  return true;
}

function gather(
  steps: readonly Step<Respond>[],
  from: number,
  exchange: Exchange,
  head: Head,
  stages: Stage[],
): Later<Stage[]> {
  for (let i = from; i < steps.length; i++) {
    const step = steps[i] as Step<Respond>;
    let made: Later<Stage | undefined>;
    try {
      made = step.run(exchange, head);
    } catch (thrown) {
      throw blame(thrown, step.origin);
    }
    if (isLater(made))
      return settled(made, step, { head, exchange }).then((stage) => {
        judge(head, step);
        if (stage) add(stages, stage, step, head);
        return gather(steps, i + 1, exchange, head, stages);
      });
    judge(head, step);
    if (made) add(stages, made, step, head);
  }
  return stages;
}

/** Throws for a status that cannot be sent, while it is known who has set it. */
function judge({ status }: Head, { origin }: Bound): void {
  if (!isFinal(status)) throw blame(new RangeError(`An answer cannot have the status ${status}.`), origin);
}

function add(stages: Stage[], stage: Stage, { name, origin, observer }: Step<Respond>, head: Head): void {
  if (stages.length === 0) wholeBehind(head, stages);
  const one = guarded(stage, origin);
  stages.push(observer ? watched(one, name, observer) : one);
}

/** Runs the plugins' `done` concurrently: a slow one does not delay the others. */
function conclude(
  steps: readonly Step<Run>[],
  exchange: Exchange,
  observer: PhaseObserver | undefined,
): Later<GatewayError | undefined> {
  let first: GatewayError | undefined;
  const waiting: Promise<GatewayError | undefined>[] = [];
  for (const step of steps) {
    try {
      const later = step.run(exchange);
      if (isLater(later))
        waiting.push(
          recorded(later, step, exchange).then(
            () => undefined,
            (error: GatewayError) => {
              observer?.failed(step.name);
              return error;
            },
          ),
        );
    } catch (thrown) {
      observer?.failed(step.name);
      first ??= blame(thrown, step.origin);
    }
  }
  if (waiting.length === 0) return first;
  return Promise.all(waiting).then((failures) => first ?? failures.find((failure) => failure !== undefined));
}

/** Milliseconds that a plugin may still record once the gateway stops waiting. */
const LAST_RECORD = 500;

/** Waits for a plugin's `done`. On a stop it waits no longer than LAST_RECORD, as the plugin's deadline may be infinite. */
function recorded(later: PromiseLike<void>, step: Bound, exchange: Exchange): Promise<void> {
  const { promise, reject } = Promise.withResolvers<never>();
  let timer: NodeJS.Timeout | undefined;
  const unsubscribe = exchange.onInterrupt(() => {
    timer = setTimeout(() => reject(blame(overdue({ ...step, deadline: LAST_RECORD }), step.origin)), LAST_RECORD);
  });
  return Promise.race([settled(later, step), promise]).finally(() => {
    clearTimeout(timer);
    unsubscribe();
  });
}

/** What a plugin works on. */
interface Work {
  /** The response's head: time that the plugin spends reading it whole counts as the provider's. */
  head?: Head;
  /** Once it is interrupted, the plugin is no longer awaited. */
  exchange?: Exchange;
}

/**
 * Awaits a plugin's promise within its deadline.
 * @throws GatewayError what the plugin threw, `plugin_timeout` or `interrupted`; each names plugin and phase
 */
export function settled<T>(
  later: PromiseLike<T>,
  { origin, deadline }: Bound,
  { head, exchange }: Work = {},
): Promise<T> {
  return new Promise((resolve, reject) => {
    const expired = () => {
      if (head?.reading) timer = setTimeout(expired, deadline);
      else reject(blame(overdue({ origin, deadline }), origin));
    };
    let timer = deadline > 0 ? setTimeout(expired, deadline) : undefined;
    const unsubscribe = exchange?.onInterrupt(() => {
      clearTimeout(timer);
      reject(blame(exchange.interruption, origin));
    });
    const settle = () => {
      clearTimeout(timer);
      unsubscribe?.();
    };
    Promise.resolve(later).then(
      (value) => {
        settle();
        resolve(value);
      },
      (thrown) => {
        settle();
        reject(blame(thrown, origin));
      },
    );
  });
}

const overdue = ({ origin, deadline }: Bound): GatewayError =>
  new GatewayError("plugin_timeout", { message: `${origin} did not end within ${deadline / 1000} s.` });

/** Wraps a stage so that its errors name the plugin; returning anything but frames is an error. */
const guarded =
  (stage: Stage, origin: string): Stage =>
  (frame) => {
    try {
      const made = stage(frame);
      if (made === undefined || made instanceof Frame || areFrames(made)) return made;
      if ((made as unknown) instanceof Promise) (made as unknown as Promise<unknown>).catch(() => {});
      throw new TypeError("A stage gives frames or nothing, and gives them at once.");
    } catch (thrown) {
      throw blame(thrown, origin);
    }
  };

/** Wraps a stage to report when it blocks the event loop. */
function watched(stage: Stage, name: string, observer: PhaseObserver): Stage {
  let unseen = 0;
  return (frame) => {
    if (unseen-- > 0 && frame.kind !== "end") return stage(frame);
    unseen = LOOKED_AT - 1;
    const began = performance.now();
    try {
      return stage(frame);
    } finally {
      judgeBlocking(observer, name, "stage", began);
    }
  };
}

function areFrames(made: unknown): made is readonly Frame[] {
  if (!Array.isArray(made)) return false;
  for (const each of made) if (!(each instanceof Frame)) return false;
  return true;
}

/** Returns any thrown value as a GatewayError that names plugin and phase. */
export function blame(thrown: unknown, origin: string): GatewayError {
  const error = GatewayError.from(thrown, "plugin_failed");
  error.origin ??= origin;
  return error;
}
