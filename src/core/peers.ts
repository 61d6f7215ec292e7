/** A fact that one worker has found and all must know. */
export interface SharedFact {
  readonly topic: string;
  /** The subject: a newer fact of the same key replaces the older one. */
  readonly key: string;
  readonly fact: unknown;
}

/** A kind of fact that workers send each other; created once, by `topic`. Facts are plain JSON. */
export interface Topic<Fact> {
  readonly name: string;
  /** Carries the type only. */
  readonly fact?: Fact;
}

/** A kind of question that one process answers for all: the primary, or the only one. Question and answer are plain JSON. */
export interface Question<Ask, Answer> {
  readonly name: string;
  /** Carries the types only. */
  readonly types?: [Ask, Answer];
}

/** Creates a kind of fact. */
export const topic = <Fact>(name: string): Topic<Fact> => ({ name });
/** Creates a kind of question. */
export const question = <Ask, Answer>(name: string): Question<Ask, Answer> => ({ name });

/** The handlers that answer the questions of all workers. */
export class QuestionHandlers {
  private readonly handlers = new Map<string, (payload: unknown) => unknown>();

  set<Ask, Answer>({ name }: Question<Ask, Answer>, answer: (payload: Ask) => Answer | Promise<Answer>): void {
    this.handlers.set(name, answer as (payload: unknown) => unknown);
  }

  /**
   * Returns the answer to a question.
   * @throws Error where no handler is registered
   */
  answer(name: string, payload: unknown): unknown {
    const answer = this.handlers.get(name);
    if (!answer) throw new Error(`nobody answers the question ${name}`);
    return answer(payload);
  }
}

/** The other workers of this gateway. Where there are none, facts go nowhere and this process answers questions itself. */
export class Peers {
  private readonly listeners = new Map<string, ((key: string, fact: unknown) => void)[]>();

  /** @param answers the handlers of this process, which has no primary */
  constructor(private readonly answers: QuestionHandlers = new QuestionHandlers()) {}

  /** Sends a fact to all other workers, also to those that start later, which receive the last fact of each key. */
  publish<Fact>(_topic: Topic<Fact>, _key: string, _fact: Fact): void {}

  /** Subscribes to facts of other workers. */
  subscribe<Fact>({ name }: Topic<Fact>, listener: (key: string, fact: Fact) => void): void {
    const listeners = this.listeners.get(name) ?? [];
    this.listeners.set(name, [...listeners, listener as (key: string, fact: unknown) => void]);
  }

  /** Asks the process that answers for all. Rejects if it has no handler. */
  async ask<Ask, Answer>({ name }: Question<Ask, Answer>, payload: Ask): Promise<Answer> {
    return this.answers.answer(name, payload) as Answer;
  }

  /** Passes on a fact from another worker. */
  protected dispatch({ topic, key, fact }: SharedFact): void {
    for (const listener of this.listeners.get(topic) ?? []) listener(key, fact);
  }
}
