import type { Turn } from "model-gateway/protocol";

/** A call that may wait for its result. */
interface Open {
  id: string;
  answered: boolean;
}

/** Calls under the same id or name, by the step they were made in; the latest step last. */
class Queues {
  private readonly byKey = new Map<string, { step: number; calls: Open[]; next: number }[]>();

  add(key: string, call: Open, step: number): void {
    const steps = this.byKey.get(key) ?? [];
    if (steps.length === 0) this.byKey.set(key, steps);
    if (steps.at(-1)?.step !== step) steps.push({ step, calls: [], next: 0 });
    steps.at(-1)?.calls.push(call);
  }

  /** The first call without a result, of the latest step that has one. */
  take(key: string): Open | undefined {
    const steps = this.byKey.get(key) ?? [];
    for (;;) {
      const step = steps.at(-1);
      if (!step) return undefined;
      const call = step.calls[step.next++];
      if (call && !call.answered) return call;
      if (!call) steps.pop();
    }
  }
}

/**
 * Pairs functions' results with their calls. Most calls of this protocol come without an id, some with one that another
 * call has: such a call gets one of its own, the same whenever the conversation is sent again. Its result is found by id,
 * then by name in the order of the calls.
 */
export class Calls {
  private readonly byId = new Queues();
  private readonly byName = new Queues();
  private step = 0;
  private readonly given = new Set<string>();
  private made = 0;
  private last: Turn["role"] | undefined;

  /** @param ids all ids that the client tells, none of which is given to another call */
  constructor(private readonly ids: ReadonlySet<string>) {}

  /** Says whose turn begins. */
  turn(role: Turn["role"]): void {
    if (role === "assistant" && this.last !== "assistant") this.step++;
    this.last = role;
  }

  /** Notes a call and returns its id. */
  call(name: string, told: string | undefined): string {
    const id = told === undefined || this.given.has(told) ? this.fresh() : told;
    this.given.add(id);
    const call = { id, answered: false };
    if (told !== undefined) this.byId.add(told, call, this.step);
    this.byName.add(name, call, this.step);
    return id;
  }

  /** The id of the call that a result is for; undefined where no call before it waits for one. */
  result(name: string, told: string | undefined): string | undefined {
    const call = (told === undefined ? undefined : this.byId.take(told)) ?? this.byName.take(name);
    if (call) call.answered = true;
    return call?.id;
  }

  private fresh(): string {
    let id: string;
    do id = `call_${this.made++}`;
    while (this.ids.has(id));
    return id;
  }
}
