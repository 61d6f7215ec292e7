import { Peers, type Question, type SharedFact, type Topic } from "../core/peers.ts";
import type { ToPrimary } from "./messages.ts";
import { PendingQuestions } from "./pending-questions.ts";

/** The peers of a worker; its primary relays its messages. */
export class WorkerPeers extends Peers {
  /** Questions to the primary. */
  readonly questions: PendingQuestions;

  constructor(private readonly send: (message: ToPrimary) => void) {
    super();
    this.questions = new PendingQuestions(send);
  }

  override publish<Fact>({ name }: Topic<Fact>, key: string, fact: Fact): void {
    this.send({ type: "fact", topic: name, key, fact });
  }

  override ask<Ask, Answer>(question: Question<Ask, Answer>, payload: Ask): Promise<Answer> {
    return this.questions.ask(question, payload);
  }

  /** Called when the primary is gone. */
  orphan(): void {
    this.questions.end("the primary is gone");
  }

  /** Called when the primary relays a fact of another worker. */
  receive(fact: SharedFact): void {
    this.dispatch(fact);
  }
}
