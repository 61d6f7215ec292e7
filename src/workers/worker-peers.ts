import { Peers, type Question, type SharedFact, type Topic } from "../core/peers.ts";
import type { PrimaryAnswer, ToPrimary } from "./messages.ts";

/** The peers of a worker; its primary relays its messages. */
export class WorkerPeers extends Peers {
  private asked = 0;
  private readonly waiting = new Map<number, PromiseWithResolvers<unknown>>();
  private alone = false;

  constructor(private readonly send: (message: ToPrimary) => void) {
    super();
  }

  override tell<Fact>({ name }: Topic<Fact>, key: string, fact: Fact): void {
    this.send({ type: "fact", topic: name, key, fact });
  }

  override ask<Ask, Answer>({ name }: Question<Ask, Answer>, asked: Ask): Promise<Answer> {
    if (this.alone) return Promise.reject(gone());
    const id = ++this.asked;
    const waiting = Promise.withResolvers<unknown>();
    this.waiting.set(id, waiting);
    this.send({ type: "question", id, name, question: asked });
    return waiting.promise as Promise<Answer>;
  }

  /** Called when the primary is gone: pending and future questions are rejected. */
  orphan(): void {
    this.alone = true;
    for (const { reject } of this.waiting.values()) reject(gone());
    this.waiting.clear();
  }

  /** Called when the primary relays a fact of another worker. */
  receive(fact: SharedFact): void {
    this.heard(fact);
  }

  /** Called with an answer of the primary. */
  receiveAnswer({ id, answer, failure }: PrimaryAnswer): void {
    const waiting = this.waiting.get(id);
    this.waiting.delete(id);
    if (failure === undefined) waiting?.resolve(answer);
    else waiting?.reject(new Error(failure));
  }
}

const gone = (): Error => new Error("the primary is gone");
