import { constants, type PerformanceEntry, PerformanceObserver } from "node:perf_hooks";
import { getHeapSpaceStatistics, setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** The share of the young generation in use from which on it is collected; V8 itself does so from 0.8 on. */
const FULL_ENOUGH = 0.7;
/** The utilization of the event loop from which on it has no time to spare, and collections would only come more often. */
const BUSY = 0.3;
/** Maximum checks between two looks: it may soon fill faster than before. */
const MAX_SKIPPED = 20;

/** V8's young generation. */
export interface YoungGeneration {
  /** Returns the share of it that is in use. */
  usage(): number;
  collect(): void;
}

/** Starts a collection: V8's own function. */
type Collect = (options: { type: "minor" }) => void;

/** A performance entry about a collection, whose detail Node's types leave out. */
interface Collection extends PerformanceEntry {
  detail: { kind: number };
}

let observer: PerformanceObserver | undefined;
/** Whether V8 marks the whole heap, which begins with an entry of its own. */
let isMarking = false;

function observeMarking(): void {
  observer ??= new PerformanceObserver((list) => {
    for (const { detail } of list.getEntries() as Collection[]) {
      if (detail.kind === constants.NODE_PERFORMANCE_GC_INCREMENTAL) isMarking = true;
      else if (detail.kind === constants.NODE_PERFORMANCE_GC_MAJOR) isMarking = false;
    }
  });
  observer.observe({ entryTypes: ["gc"] });
}

/** Returns V8's young generation in this thread. */
export function youngGeneration(): YoungGeneration {
  let collect: Collect | undefined;
  observeMarking();
  return {
    usage() {
      const young = getHeapSpaceStatistics().find(({ space_name: name }) => name === "new_space");
      return young ? young.space_used_size / (young.space_used_size + young.space_available_size) : 0;
    },
    collect() {
      // V8 would complete that first, in one step of up to 240 ms, and then discard what it has compiled for objects that are gone.
      if (isMarking) return;
      collect ??= exposedCollect();
      collect({ type: "minor" });
    },
  };
}

/** Returns the function, which V8 gives to a context that is created with this flag. */
function exposedCollect(): Collect {
  setFlagsFromString("--expose-gc");
  try {
    return runInNewContext("gc") as Collect;
  } finally {
    setFlagsFromString("--no-expose-gc");
  }
}

/**
 * Collects the young generation after an exchange has ended and while no client waits for the beginning of a response. V8 itself does
 * so as soon as an exchange has taken the last of 0.8: the response of a fast provider waits for it, or the chunks that came
 * together with the one that took it. Never under load, which leaves no such time.
 */
export class IdleCollector {
  private isDue = false;
  /** The share in use at the last look; how many checks ago that was, and how many of them look no more. */
  private lastUsage = 0;
  private sinceLook = 0;
  private skipped = 0;

  /** @param waits reports whether a client waits for the beginning of a response */
  constructor(
    private readonly waits: () => boolean,
    private readonly young: YoungGeneration = youngGeneration(),
  ) {}

  /**
   * Looks how full it is, unless that will take a while; to be called every few milliseconds while there are requests.
   * @param utilization of the event loop, from 0 to 1
   */
  readonly check = (utilization: number): void => {
    const wasDue = this.isDue;
    this.sinceLook++;
    this.isDue = utilization < BUSY && this.sinceLook > this.skipped && this.look();
    // No exchange has ended since.
    if (wasDue) this.collectIfDue();
  };

  /**
   * Reports whether it is full enough. A look takes longer than all else that is done every few milliseconds, and takes room that V8
   * has reserved for the next objects: until half of the time is over in which it will be full at the pace since the last one,
   * there is none.
   */
  private look(): boolean {
    const usage = this.young.usage();
    // Less than before: it has been collected meanwhile, and has filled from nothing.
    const pace = (usage < this.lastUsage ? usage : usage - this.lastUsage) / this.sinceLook;
    const half = pace > 0 ? (FULL_ENOUGH - usage) / pace / 2 : MAX_SKIPPED;
    this.skipped = Math.min(MAX_SKIPPED, Math.max(0, Math.floor(half)));
    this.lastUsage = usage;
    this.sinceLook = 0;
    return usage >= FULL_ENOUGH;
  }

  /** To be called when an exchange has ended. */
  readonly onEnd = (): void => {
    // After what else has arrived in this turn has been read.
    if (this.isDue) setImmediate(this.collectIfDue);
  };

  private readonly collectIfDue = (): void => {
    if (!this.isDue || this.waits()) return;
    this.isDue = false;
    this.young.collect();
  };
}
