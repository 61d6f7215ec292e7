import type { Log } from "../core/log.ts";
import type { PhaseObserver } from "../core/plugin-timing.ts";
import { CounterFamily, HistogramFamily, type HistogramSeries, type MetricJson } from "./families.ts";

/** Milliseconds between log entries about one phase of one plugin. */
const LOG_INTERVAL = 60_000;

/** Sampled durations of plugin phases, in all generations, and which plugins block the event loop. */
export class PluginTimes implements PhaseObserver {
  private readonly family = new HistogramFamily("gateway_plugin_seconds");
  private readonly blocking = new CounterFamily("gateway_plugin_blocking_calls_total");
  /** By plugin, then by phase: a name made of both would be new to each look-up. */
  private readonly durations = new Map<string, Map<string, HistogramSeries>>();
  /** By plugin and phase: time of the last log entry, and calls since then. */
  private readonly lastLogged = new Map<string, { at: number; calls: number }>();

  /** @param onFailure called when a plugin could not record an exchange */
  constructor(
    private readonly log: Pick<Log, "warn">,
    private readonly onFailure: (plugin: string) => void = () => {},
    private readonly now: () => number = () => performance.now(),
  ) {}

  onDuration(plugin: string, hook: string, ms: number): void {
    const hooks = this.durations.getOrInsertComputed(plugin, () => new Map());
    hooks.getOrInsertComputed(hook, () => this.family.labels(plugin, hook)).observe(ms / 1000);
  }

  onDoneFailed(plugin: string): void {
    this.onFailure(plugin);
  }

  onBlocked(plugin: string, hook: string, ms: number): void {
    this.blocking.labels(plugin, hook).value++;
    const origin = `${plugin}.${hook}`;
    const last = this.lastLogged.getOrInsertComputed(origin, () => ({ at: Number.NEGATIVE_INFINITY, calls: 0 }));
    last.calls++;
    const now = this.now();
    if (now - last.at < LOG_INTERVAL) return;
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
