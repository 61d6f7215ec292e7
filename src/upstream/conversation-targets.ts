/** Maximum number of remembered conversations; the one that has been idle for longest is removed first. */
const MAX_REMEMBERED = 50_000;

/** The target of a conversation, as a process sends it to other processes, in plain JSON. */
export interface ConversationNews {
  /** The conversation's hash. */
  readonly conversation: string;
  /** `provider:model`. */
  readonly target: string;
}

/** The targets of conversations where these were chosen by load, and cannot be derived from the conversation. */
export class ConversationTargets {
  private readonly targets = new Map<string, string>();

  /** @param publish called with each change found here */
  constructor(public publish: (news: ConversationNews) => void = () => {}) {}

  /** Returns the target that last served a conversation; undefined: unknown. */
  get(conversation: string): string | undefined {
    return this.targets.get(conversation);
  }

  /** Remembers the target that serves a conversation. */
  record(conversation: string, target: string): void {
    const isNews = this.targets.get(conversation) !== target;
    this.applyRemote({ conversation, target });
    if (isNews) this.publish({ conversation, target });
  }

  /** Remembers what another process has chosen. */
  applyRemote({ conversation, target }: ConversationNews): void {
    const { targets } = this;
    targets.delete(conversation);
    targets.set(conversation, target);
    if (targets.size > MAX_REMEMBERED) for (const oldest of targets.keys().take(1)) targets.delete(oldest);
  }
}
