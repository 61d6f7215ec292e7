import type { PhaseObserver } from "../core/chain.ts";
import { type Distribution, HistogramFamily, type MetricJson, under } from "./families.ts";

/** What phases of plugins take, as chains tell of some of them, in all generations. */
export class PluginTimes implements PhaseObserver {
  private readonly family = new HistogramFamily("gateway_plugin_seconds");
  private readonly known = new Map<string, Distribution>();

  /** @param fault a plugin could not record an exchange */
  constructor(private readonly fault: (plugin: string) => void = () => {}) {}

  took(plugin: string, hook: string, ms: number): void {
    under(this.known, `${plugin}.${hook}`, () => this.family.of(plugin, hook)).observe(ms / 1000);
  }

  failed(plugin: string): void {
    this.fault(plugin);
  }

  json(): MetricJson {
    return this.family.json();
  }
}
