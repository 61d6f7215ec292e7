import type { Question } from "../core/peers.ts";
import { FormattedError } from "../text/format-error.ts";
import type { AnswerMessage, QuestionMessage } from "./messages.ts";

/** Questions to another process of this gateway that it has not answered yet. */
export class PendingQuestions {
  private lastId = 0;
  private readonly pending = new Map<number, PromiseWithResolvers<unknown>>();
  private endReason: string | undefined;

  /** @param send sends a message to the other process */
  constructor(private readonly send: (message: QuestionMessage) => void) {}

  /** Sends a question. Rejects with the other process's reason where it has no answer. */
  async ask<Ask, Answer>({ name }: Question<Ask, Answer>, question: Ask): Promise<Answer> {
    if (this.endReason !== undefined) throw new Error(this.endReason);
    const id = ++this.lastId;
    const pending = Promise.withResolvers<unknown>();
    this.pending.set(id, pending);
    this.send({ type: "question", id, name, question });
    return (await pending.promise) as Answer;
  }

  /** Called with an answer of the other process. */
  receive({ id, answer, failure }: AnswerMessage): void {
    const pending = this.pending.get(id);
    this.pending.delete(id);
    if (failure === undefined) pending?.resolve(answer);
    else pending?.reject(new FormattedError(failure));
  }

  /** Called when the other process is gone: rejects pending and future questions. */
  end(reason: string): void {
    this.endReason = reason;
    for (const { reject } of this.pending.values()) reject(new Error(reason));
    this.pending.clear();
  }
}
