import { Admission, type AdmissionLimits, type Applicant } from "../core/admission.ts";
import type { Provider } from "../core/marketplace.ts";
import type { AbortSource } from "./request.ts";

/** Whose attempt it is. An Exchange is one. */
interface PlaceSeeker extends AbortSource {
  readonly caller?: { readonly id: string } | undefined;
  readonly address: string;
}

/** What one attempt takes up at a provider, until it is over. */
export interface Place {
  /** It is over; safe to say more than once. */
  leave(): void;
}

const UNLIMITED: Place = { leave() {} };

/** Room at providers that take so many requests at a time (`concurrency`), fair between callers where there is none. */
export class Places {
  private readonly admissions = new Map<string, Admission>();

  /**
   * @param limits how many may wait, and for how long
   * @param processes among which connections are spread: each has its share of a provider
   * @param former those of the generation before: what has places there has them here, where the limits are the same
   */
  constructor(
    private readonly limits: Pick<AdmissionLimits, "queue" | "wait">,
    private readonly processes = 1,
    former?: Places,
  ) {
    for (const [key, admission] of former?.admissions ?? []) if (!admission.empty) this.admissions.set(key, admission);
  }

  /** Whether a provider takes one more at once. */
  free(provider: Provider): boolean {
    return this.of(provider)?.free ?? true;
  }

  /**
   * A place at a provider: now, or when the promise settles.
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
