import type { Protocol } from "./protocol.ts";

/** The protocols of the gateway, for plugins. */
export class Protocols {
  private readonly byName: ReadonlyMap<string, Protocol>;

  constructor(readonly all: readonly Protocol[]) {
    this.byName = new Map(all.map((protocol) => [protocol.name, protocol]));
  }

  find(name: string): Protocol | undefined {
    return this.byName.get(name);
  }
}
