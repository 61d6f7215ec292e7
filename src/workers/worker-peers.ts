import { Peers, type Question, type SharedFact, type Topic } from "../core/peers.ts";
import type { QuestionAnswer, ToPrimary } from "./messages.ts";

/** The peers of a worker; its primary relays its messages. */
export class WorkerPeers extends Peers {
  private lastId = 0;
  private readonly pending = new Map<number, PromiseWithResolvers<unknown>>();
  private isOrphaned = false;

  constructor(private readonly send: (message: ToPrimary) => void) {
    super();
  }

  override publish<Fact>({ name }: Topic<Fact>, key: string, fact: Fact): void {
    this.send({ type: "fact", topic: name, key, fact });
  }

  override ask<Ask, Answer>({ name }: Question<Ask, Answer>, payload: Ask): Promise<Answer> {
    if (this.isOrphaned) return Promise.reject(primaryGone());
    const id = ++this.lastId;
    const waiting = Promise.withResolvers<unknown>();
    this.pending.set(id, waiting);
    this.send({ type: "question", id, name, question: payload });
    return waiting.promise as Promise<Answer>;
  }

  /** Called when the primary is gone: pending and future questions are rejected. */
  orphan(): void {
    this.isOrphaned = true;
    for (const { reject } of this.pending.values()) reject(primaryGone());
    this.pending.clear();
  }

  /** Called when the primary relays a fact of another worker. */
  receive(fact: SharedFact): void {
    this.dispatch(fact);
  }

  /** Called with an answer of the primary. */
  receiveAnswer({ id, answer, failure }: QuestionAnswer): void {
    const waiting = this.pending.get(id);
    this.pending.delete(id);
    if (failure === undefined) waiting?.resolve(answer);
    else waiting?.reject(new Error(failure));
  }
}

const primaryGone = (): Error => new Error("the primary is gone");
