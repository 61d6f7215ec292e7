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
  /** Milliseconds that one of its phases may take when it gives a promise; 0: no end. */
  deadline?: number | undefined;
}

/** Milliseconds for a phase of a plugin whose options do not say otherwise. */
const PHASE_DEADLINE = 10_000;

/** What may be there at once. */
export type Later<T> = T | Promise<T>;

/** One call in so many is timed. A prime, so that every phase has its turn, however many there are. */
const TIMED = 17;

/** Hears of what phases take, and of what could not be recorded. */
export interface PhaseObserver {
  /** @param hook the phase, or `serve` @param ms of one call in 17 */
  took(plugin: string, hook: string, ms: number): void;
  /** A plugin's `done` has thrown, or did not end in time. */
  failed(plugin: string): void;
  /** A call that was timed has blocked the event loop for more than 50 ms: up to its first `await`, or a stage for one frame. */
  blocked(plugin: string, hook: string, ms: number): void;
}

/** Milliseconds for which a call may block the event loop, in which nothing else is served. */
export const BLOCKING = 50;
/** Calls that are timed, one and all, once something has blocked the event loop: whatever it was does it again. */
const SUSPECT = 200;
/** Of a stage's frames one in so many is looked at, and the last: a stage that blocks the loop does it again. */
const LOOKED_AT = 16;

/** Whose promise it is, and how long it may take. */
export interface Bound {
  /** Plugin and phase, like `auth.access`. */
  readonly origin: string;
  /** Milliseconds; 0: no end. */
  readonly deadline: number;
}

/** One phase of one plugin. */
interface Step<Run> extends Bound {
  /** The plugin's name. */
  readonly name: string;
  /** Where the plugin stands in the chain. */
  readonly at: number;
  readonly run: Run;
  /** Hears of its stages, where they are timed. */
  readonly observer: PhaseObserver | undefined;
}

type Run = (exchange: Exchange, attempt?: Attempt, answer?: FailedAnswer) => Later<void>;
type Respond = (exchange: Exchange, head: Head) => Later<Stage | undefined>;

/** Whether that is waited for: a promise, or anything else that has a `then`, as queries of database clients have. */
export const isLater = <T>(made: T | PromiseLike<T>): made is PromiseLike<T> =>
  made !== undefined && typeof (made as PromiseLike<T> | null)?.then === "function";

/** The plugins of a path, phase by phase: down the list on the way in, up the list on the way out. */
export class Chain {
  private readonly steps: StepsOf;
  /** The same, of which each tells what it took. */
  private readonly timed: StepsOf;
  /** Calls until the next one is timed. */
  private untimed = 0;
  /** Calls of all chains that are timed, whoever's turn it is. */
  private static suspects = 0;

  /** @param serving the plugin that answers the chain's path itself, once all others have let the request in */
  constructor(
    readonly name: string,
    readonly links: readonly Link[],
    readonly serving?: Link,
    private readonly observer?: PhaseObserver,
  ) {
    this.steps = stepsOf(links, serving);
    this.timed = observer ? stepsOf(links, serving, observer) : this.steps;
  }

  /** Something has blocked the event loop: calls are timed until it is known who does. */
  static suspect(): void {
    Chain.suspects = SUSPECT;
  }

  /** Those of a phase. */
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

  /** Whether somebody wants to know of answers that clients get nothing of. */
  get hasFailed(): boolean {
    return this.steps.failed.length > 0;
  }

  failed(exchange: Exchange, attempt: Attempt, answer: FailedAnswer): Later<void> {
    return onward(this.of("failed"), 0, exchange, attempt, answer);
  }

  /** Stages in the order frames pass them. An answer that a plugin gave passes only those that stand above it. */
  response(exchange: Exchange, head: Head): Later<Stage[]> {
    const { answerer } = exchange;
    exchange.head = head;
    const responding = this.of("response");
    const steps = answerer ? responding.filter(({ at }) => at < answerer.at) : responding;
    return gather(steps, 0, exchange, head, []);
  }

  /** The exchange has ended: every plugin's, whatever another one throws; one throw is answered, for the log. */
  done(exchange: Exchange): Later<GatewayError | undefined> {
    exchange.end();
    return conclude(this.of("done"), exchange, this.observer);
  }
}

/** The steps of each phase, in the order in which they run. */
type StepsOf = Readonly<
  Record<Exclude<Phase, "response">, readonly Step<Run>[]> & { response: readonly Step<Respond>[] }
>;

/** @param observer hears what each takes */
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

/** A phase that tells what it took, until it has ended. */
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
    // Asked for its end once: some begin anew each time.
    if (isLater(later)) return Promise.resolve(later).finally(took);
    took();
    return later;
  };
}

/** Tells of a call that blocked the event loop for too long. @param began `performance.now()` before it */
function judgeBlocking(observer: PhaseObserver, plugin: string, hook: string, began: number): void {
  const ms = performance.now() - began;
  if (ms > BLOCKING) observer.blocked(plugin, hook, ms);
}

/** `serve` as a phase that always answers. */
function served(plugin: Plugin): Run {
  return async (exchange) => {
    exchange.answer = (await plugin.serve?.(exchange)) ?? { status: 404, body: "" };
  };
}

// Most plugins answer at once: as long as no plugin gives a promise, none is made, and no timer is set.

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

/** Whether a plugin has answered; nothing behind it sees the request then. */
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

/** Finds a status that cannot be sent while it is known who has set it. */
function judge({ status }: Head, { origin }: Bound): void {
  if (!isFinal(status)) throw blame(new RangeError(`An answer cannot have the status ${status}.`), origin);
}

function add(stages: Stage[], stage: Stage, { name, origin, observer }: Step<Respond>, head: Head): void {
  if (stages.length === 0) wholeBehind(head, stages);
  const one = guarded(stage, origin);
  stages.push(observer ? watched(one, name, observer) : one);
}

/** No plugin waits for another one: what one takes long to record is none of the others' business. */
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

/** Milliseconds that a plugin still has to record once the gateway can wait no longer. */
const LAST_RECORD = 500;

/** The end of what a plugin records. A stop does not wait for it as long as its deadline allows, which may be for ever. */
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
  /** The answer's: the time for which the plugin reads that whole is the provider's. */
  head?: Head;
  /** When that is interrupted, nobody waits for the plugin any more. */
  exchange?: Exchange;
}

/**
 * What a plugin promised.
 * @throws GatewayError what it threw, `plugin_timeout` or `interrupted`; each names plugin and phase
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

/** A stage whose faults name their plugin; one that gives anything but frames has failed. */
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

/** A stage of which is told when it blocks the event loop. */
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

/** Any throw as a GatewayError that names plugin and phase. */
export function blame(thrown: unknown, origin: string): GatewayError {
  const error = GatewayError.from(thrown, "plugin_failed");
  error.origin ??= origin;
  return error;
}
