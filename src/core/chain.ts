import { GatewayError } from "./errors.ts";
import type { Attempt, Exchange, Head } from "./exchange.ts";
import { PHASES, type Phase, type Plugin, type Stage } from "./plugin.ts";

/** A plugin in its chain, under the name gateway.yaml gives it. */
export interface Link {
  name: string;
  plugin: Plugin;
}

type Later<T> = T | Promise<T>;
interface Step<Run> {
  origin: string;
  run: Run;
}

/** The plugins of a path, phase by phase: down the list on the way in, up the list on the way out. */
export class Chain {
  private readonly steps: Record<Phase, Step<(...parts: never[]) => unknown>[]>;

  constructor(
    readonly name: string,
    readonly links: readonly Link[],
  ) {
    const of = (phase: Phase) => {
      const list = phase === "response" ? links.toReversed() : links;
      return list.flatMap(({ name, plugin }) => {
        const run = plugin[phase];
        return run ? [{ origin: `${name}.${phase}`, run: run.bind(plugin) as (...parts: never[]) => unknown }] : [];
      });
    };
    this.steps = Object.fromEntries(PHASES.map((phase) => [phase, of(phase)])) as Chain["steps"];
  }

  access(exchange: Exchange): Later<void> {
    return this.through("access", exchange);
  }

  request(exchange: Exchange): Later<void> {
    return this.through("request", exchange);
  }

  route(exchange: Exchange): Later<void> {
    return this.through("route", exchange);
  }

  send(exchange: Exchange, attempt: Attempt): Later<void> {
    return this.through("send", exchange, attempt);
  }

  /** Stages in the order frames pass them. */
  response(exchange: Exchange, head: Head): Later<Stage[]> {
    return gather(this.steps.response as Step<Respond>[], 0, exchange, head, []);
  }

  /** Every plugin's, whatever another one throws; the first throw is answered, for the log. */
  done(exchange: Exchange): Later<GatewayError | undefined> {
    return conclude(this.steps.done as Step<Run>[], 0, exchange, undefined);
  }

  /** Runs a phase without a promise as long as no plugin gives one. */
  private through(phase: Phase, exchange: Exchange, attempt?: Attempt): Later<void> {
    return onward(this.steps[phase] as Step<Run>[], 0, exchange, attempt);
  }
}

type Run = (exchange: Exchange, attempt?: Attempt) => Later<void>;
type Respond = (exchange: Exchange, head: Head) => Later<Stage | undefined>;

// Most plugins answer at once: as long as no plugin gives a promise, none is made.

function onward(steps: readonly Step<Run>[], from: number, exchange: Exchange, attempt?: Attempt): Later<void> {
  for (let i = from; i < steps.length; i++) {
    const { origin, run } = steps[i] as Step<Run>;
    let later: Later<void>;
    try {
      later = run(exchange, attempt);
    } catch (thrown) {
      throw blame(thrown, origin);
    }
    if (later instanceof Promise)
      return later.then(
        () => onward(steps, i + 1, exchange, attempt),
        (thrown) => Promise.reject(blame(thrown, origin)),
      );
  }
}

function gather(
  steps: readonly Step<Respond>[],
  from: number,
  exchange: Exchange,
  head: Head,
  stages: Stage[],
): Later<Stage[]> {
  for (let i = from; i < steps.length; i++) {
    const { origin, run } = steps[i] as Step<Respond>;
    let made: Later<Stage | undefined>;
    try {
      made = run(exchange, head);
    } catch (thrown) {
      throw blame(thrown, origin);
    }
    if (made instanceof Promise)
      return made.then(
        (stage) => {
          if (stage) stages.push(attributed(stage, origin));
          return gather(steps, i + 1, exchange, head, stages);
        },
        (thrown) => Promise.reject(blame(thrown, origin)),
      );
    if (made) stages.push(attributed(made, origin));
  }
  return stages;
}

function conclude(
  steps: readonly Step<Run>[],
  from: number,
  exchange: Exchange,
  before: GatewayError | undefined,
): Later<GatewayError | undefined> {
  let first = before;
  for (let i = from; i < steps.length; i++) {
    const { origin, run } = steps[i] as Step<Run>;
    try {
      const later = run(exchange);
      if (later instanceof Promise)
        return later.then(
          () => conclude(steps, i + 1, exchange, first),
          (thrown) => conclude(steps, i + 1, exchange, first ?? blame(thrown, origin)),
        );
    } catch (thrown) {
      first ??= blame(thrown, origin);
    }
  }
  return first;
}

const attributed =
  (stage: Stage, origin: string): Stage =>
  (frame) => {
    try {
      return stage(frame);
    } catch (thrown) {
      throw blame(thrown, origin);
    }
  };

/** Any throw as a GatewayError that names plugin and phase. */
function blame(thrown: unknown, origin: string): GatewayError {
  const error = GatewayError.from(thrown, "plugin_failed");
  error.origin ??= origin;
  return error;
}
