import type { Test } from "tap";
import { type GatewayProcess, startProcess } from "./process.ts";

/**
 * Gateways that serve together, in processes and folders of their own.
 * @param yaml of each of them
 * @param store as gateway.yaml says it
 */
export function startInstances(t: Test, yaml: string, store: string, count = 3): Promise<GatewayProcess[]> {
  const own = `store: ${store}\ninstances: ${count}\n`;
  return Promise.all(Array.from({ length: count }, () => startProcess(t, own + yaml)));
}
