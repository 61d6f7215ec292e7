/** What one worker has found out and all shall know. */
export interface SharedFact {
  readonly topic: string;
  /** What it is about: a newer fact of the same key takes its place. */
  readonly key: string;
  readonly fact: unknown;
}

/** A kind of fact that workers tell each other; made once, by `topic`. Facts are plain JSON. */
export interface Topic<Fact> {
  readonly name: string;
  /** Only for the type. */
  readonly fact?: Fact;
}

/** A kind of question that one process answers for all: the primary, or the only one. Both are plain JSON. */
export interface Question<Ask, Answer> {
  readonly name: string;
  /** Only for the types. */
  readonly types?: [Ask, Answer];
}

export const topic = <Fact>(name: string): Topic<Fact> => ({ name });
export const question = <Ask, Answer>(name: string): Question<Ask, Answer> => ({ name });

/** Who answers the questions of all workers. */
export class Answers {
  private readonly answerers = new Map<string, (asked: unknown) => unknown>();

  set<Ask, Answer>({ name }: Question<Ask, Answer>, answer: (asked: Ask) => Answer | Promise<Answer>): void {
    this.answerers.set(name, answer as (asked: unknown) => unknown);
  }

  /** @throws Error where nobody answers that */
  answer(name: string, asked: unknown): unknown {
    const answer = this.answerers.get(name);
    if (!answer) throw new Error(`nobody answers the question ${name}`);
    return answer(asked);
  }
}

/** The other workers of this gateway. Where there are none, nobody hears and this process answers itself. */
export class Peers {
  private readonly listeners = new Map<string, ((key: string, fact: unknown) => void)[]>();

  /** @param answers of this process, which has no primary */
  constructor(private readonly answers: Answers = new Answers()) {}

  /** Tells all other workers, those too that start later: of each key they hear the last fact. */
  tell<Fact>(_topic: Topic<Fact>, _key: string, _fact: Fact): void {}

  /** Hears what other workers tell. */
  hear<Fact>({ name }: Topic<Fact>, listener: (key: string, fact: Fact) => void): void {
    const listeners = this.listeners.get(name) ?? [];
    this.listeners.set(name, [...listeners, listener as (key: string, fact: unknown) => void]);
  }

  /** Asks who answers for all. Rejects where nobody does. */
  async ask<Ask, Answer>({ name }: Question<Ask, Answer>, asked: Ask): Promise<Answer> {
    return this.answers.answer(name, asked) as Answer;
  }

  /** Something was told by another worker. */
  protected heard({ topic, key, fact }: SharedFact): void {
    for (const listener of this.listeners.get(topic) ?? []) listener(key, fact);
  }
}
