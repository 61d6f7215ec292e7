import type { Turn } from "model-gateway";

interface Open {
  id: string;
  /** The client's id, where it gave one. */
  told: string | undefined;
  name: string;
}

/**
 * Pairs functions' results with their calls. Most calls of this protocol come without an id, some with one that another
 * call has: such a call gets one of its own, the same whenever the conversation is sent again. Its result is found by id,
 * then by name in the order of the calls.
 */
export class Calls {
  /** Calls without a result, by the step they were made in; the latest step first. */
  private readonly steps: Open[][] = [];
  private readonly given = new Set<string>();
  private made = 0;
  private last: Turn["role"] | undefined;

  /** @param ids all ids that the client tells, none of which is given to another call */
  constructor(private readonly ids: ReadonlySet<string>) {}

  /** Says whose turn begins. */
  turn(role: Turn["role"]): void {
    if (role === "assistant" && this.last !== "assistant") this.steps.unshift([]);
    this.last = role;
  }

  /** Notes a call and returns its id. */
  call(name: string, told: string | undefined): string {
    const id = told === undefined || this.given.has(told) ? this.fresh() : told;
    this.given.add(id);
    if (this.steps.length === 0) this.steps.push([]);
    this.steps[0]?.push({ id, told, name });
    return id;
  }

  /** The id of the call that a result is for; undefined where no call before it waits for one. */
  result(name: string, told: string | undefined): string | undefined {
    const byId = told === undefined ? undefined : this.take((open) => open.told === told);
    return (byId ?? this.take((open) => open.name === name))?.id;
  }

  private take(matches: (open: Open) => boolean): Open | undefined {
    for (const step of this.steps) {
      const at = step.findIndex(matches);
      if (at >= 0) return step.splice(at, 1)[0];
    }
    return undefined;
  }

  private fresh(): string {
    let id: string;
    do id = `call_${this.made++}`;
    while (this.ids.has(id));
    return id;
  }
}
