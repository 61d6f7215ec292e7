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
  async response(exchange: Exchange, head: Head): Promise<Stage[]> {
    const stages: Stage[] = [];
    for (const { origin, run } of this.steps.response) {
      try {
        const made = (run as (exchange: Exchange, head: Head) => Later<Stage | undefined>)(exchange, head);
        const stage = made instanceof Promise ? await made : made;
        if (stage) stages.push(attributed(stage, origin));
      } catch (thrown) {
        throw blame(thrown, origin);
      }
    }
    return stages;
  }

  /** Every plugin's, whatever another one throws; the first throw is answered, for the log. */
  async done(exchange: Exchange): Promise<GatewayError | undefined> {
    let first: GatewayError | undefined;
    for (const { origin, run } of this.steps.done) {
      try {
        const later = (run as Run)(exchange);
        if (later) await later;
      } catch (thrown) {
        first ??= blame(thrown, origin);
      }
    }
    return first;
  }

  /** Runs a phase without a promise as long as no plugin gives one. */
  private through(phase: Phase, exchange: Exchange, attempt?: Attempt): Later<void> {
    return onward(this.steps[phase] as Step<Run>[], 0, exchange, attempt);
  }
}

type Run = (exchange: Exchange, attempt?: Attempt) => Later<void>;

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
