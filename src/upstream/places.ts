import { Admission, type AdmissionLimits, type Applicant } from "../core/admission.ts";
import type { Provider } from "../core/marketplace.ts";
import type { AbortSource } from "./request.ts";

/** The owner of an attempt. An Exchange is one. */
interface PlaceSeeker extends AbortSource {
  readonly caller?: { readonly id: string } | undefined;
  readonly address: string;
}

/** A slot at a provider that one attempt takes up until it is over. */
export interface Place {
  /** Frees the slot; may be called more than once. */
  leave(): void;
}

const UNLIMITED: Place = { leave() {} };

/** Limits concurrent requests per provider (`concurrency`); waiting requests are queued fairly between callers. */
export class Places {
  private readonly admissions = new Map<string, Admission>();

  /**
   * @param limits how many requests may wait, and for how long
   * @param processes number of processes that share a provider's limit equally
   * @param former those of the generation before, whose slots and queues go on where the limits are the same
   */
  constructor(
    private readonly limits: Pick<AdmissionLimits, "queue" | "wait">,
    private readonly processes = 1,
    former?: Places,
  ) {
    for (const [key, admission] of former?.admissions ?? []) if (!admission.empty) this.admissions.set(key, admission);
  }

  /** Reports whether a provider has a free slot. */
  free(provider: Provider): boolean {
    return this.of(provider)?.free ?? true;
  }

  /**
   * Takes a slot at a provider, at once or when the promise settles.
   * @throws GatewayError `overloaded` when too many wait, or it has waited too long; `client_gone`
   */
  take(provider: Provider, seeker: PlaceSeeker): Place | Promise<Place> {
    const admission = this.of(provider);
    if (!admission) return UNLIMITED;
    const { caller, address } = seeker;
    const applicant: Applicant = { caller, address, onAbort: (leave) => seeker.onAbort(leave) };
    const place = { leave: () => admission.leave(applicant) };
    return admission.enter(applicant)?.then(() => place) ?? place;
  }

  private of({ name, concurrency = 0, timeouts: { total } }: Provider): Admission | undefined {
    if (concurrency === 0) return undefined;
    const { queue, wait } = this.limits;
    const key = `${name} ${concurrency} ${queue} ${wait} ${total}`;
    let admission = this.admissions.get(key);
    if (!admission) {
      const limits = {
        concurrency: Math.ceil(concurrency / this.processes),
        perKey: 0,
        queue: Math.ceil(queue / this.processes),
        wait: total > 0 ? Math.min(wait, total) : wait,
      };
      admission = new Admission(limits, `The provider ${name}`);
      this.admissions.set(key, admission);
    }
    return admission;
  }
}
