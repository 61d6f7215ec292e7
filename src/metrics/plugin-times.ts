import type { PhaseObserver } from "../core/chain.ts";
import type { Log } from "../core/log.ts";
import { CounterFamily, type Distribution, HistogramFamily, type MetricJson, under } from "./families.ts";

/** Milliseconds between log entries about one phase of one plugin. */
const TELL = 60_000;

/** Sampled durations of plugin phases, in all generations, and which plugins block the event loop. */
export class PluginTimes implements PhaseObserver {
  private readonly family = new HistogramFamily("gateway_plugin_seconds");
  private readonly blocking = new CounterFamily("gateway_plugin_blocking_calls_total");
  private readonly known = new Map<string, Distribution>();
  /** By plugin and phase: time of the last log entry, and calls since then. */
  private readonly told = new Map<string, { at: number; calls: number }>();

  /** @param fault called when a plugin could not record an exchange */
  constructor(
    private readonly log: Pick<Log, "warn">,
    private readonly fault: (plugin: string) => void = () => {},
    private readonly now: () => number = () => performance.now(),
  ) {}

  took(plugin: string, hook: string, ms: number): void {
    under(this.known, `${plugin}.${hook}`, () => this.family.of(plugin, hook)).observe(ms / 1000);
  }

  failed(plugin: string): void {
    this.fault(plugin);
  }

  blocked(plugin: string, hook: string, ms: number): void {
    this.blocking.of(plugin, hook).value++;
    const origin = `${plugin}.${hook}`;
    const last = under(this.told, origin, () => ({ at: Number.NEGATIVE_INFINITY, calls: 0 }));
    last.calls++;
    const now = this.now();
    if (now - last.at < TELL) return;
    this.log.warn(
      { origin, ms: Math.round(ms), calls: last.calls },
      "a plugin blocked the event loop: nothing else was served meanwhile",
    );
    Object.assign(last, { at: now, calls: 0 });
  }

  json(): MetricJson[] {
    return [this.family.json(), this.blocking.json()];
  }
}
