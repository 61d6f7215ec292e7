import { Admission, type AdmissionLimits, type AdmissionRequest } from "../core/admission.ts";
import type { Provider } from "../core/marketplace.ts";

/** The owner of an attempt. An Exchange is one. */
type SlotRequester = Pick<AdmissionRequest, "address" | "caller" | "onAbort">;

/** A slot at a provider that one attempt takes up until it is over. */
export interface ProviderSlot {
  /** Frees the slot; may be called more than once. */
  release(): void;
}

const UNLIMITED: ProviderSlot = { release() {} };

/** Limits concurrent requests per provider (`concurrency`); waiting requests are queued fairly between callers. */
export class ProviderSlots {
  private readonly admissions = new Map<string, Admission>();

  /**
   * @param limits how many requests may wait, and for how long
   * @param processes number of processes that share a provider's limit equally
   * @param previous those of the generation before
   * @param providers those whose slots and queues are kept where the limits are the same; at once, as requests may go on to begin with
   * the generation before
   */
  constructor(
    private readonly limits: Pick<AdmissionLimits, "queue" | "wait">,
    private readonly processes = 1,
    previous?: ProviderSlots,
    providers: Iterable<Provider> = [],
  ) {
    for (const provider of providers) this.admissionOf(provider, previous);
  }

  /** Reports whether a provider has a free slot. */
  hasFree(provider: Provider): boolean {
    return this.admissionOf(provider)?.hasCapacity ?? true;
  }

  /**
   * Takes a slot at a provider, at once or when the promise settles.
   * @throws GatewayError `overloaded` when too many wait, or it has waited too long; `client_gone`
   */
  acquire(provider: Provider, requester: SlotRequester): ProviderSlot | Promise<ProviderSlot> {
    const admission = this.admissionOf(provider);
    return admission ? this.acquireFrom(admission, requester) : UNLIMITED;
  }

  private acquireFrom(admission: Admission, requester: SlotRequester): ProviderSlot | Promise<ProviderSlot> {
    const { caller, address } = requester;
    const request: AdmissionRequest = { caller, address, onAbort: (listener) => requester.onAbort(listener) };
    const slot = { release: () => admission.release(request) };
    return admission.acquire(request)?.then(() => slot) ?? slot;
  }

  private admissionOf(
    { name, concurrency = 0, timeouts: { total } }: Provider,
    previous?: ProviderSlots,
  ): Admission | undefined {
    if (concurrency === 0) return undefined;
    const { queue, wait } = this.limits;
    const key = `${name} ${concurrency} ${queue} ${wait} ${total}`;
    const known = this.admissions.get(key);
    if (known) return known;
    const admission = previous?.admissions.get(key) ?? this.createAdmission(name, concurrency, total);
    this.admissions.set(key, admission);
    return admission;
  }

  private createAdmission(name: string, concurrency: number, total: number): Admission {
    const { queue, wait } = this.limits;
    const limits = {
      concurrency: Math.ceil(concurrency / this.processes),
      perKey: 0,
      queue: Math.ceil(queue / this.processes),
      wait: total > 0 ? Math.min(wait, total) : wait,
    };
    return new Admission(limits, `The provider ${name}`);
  }
}
