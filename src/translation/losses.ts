import { GatewayError } from "../core/errors.ts";
import type { FeatureUse } from "./conversation.ts";
import { FEATURES, type SupportTable, supportOf } from "./features.ts";

/** Notices of one sort; what follows is the same at other places. */
const NOTICES = 8;
/** Notices in all, which become headers of the answer. */
const ALL_NOTICES = 32;

/** What one request loses when it is written in another protocol. Nothing is lost without being noted here, or refused. */
export class Losses {
  /** The client's own paths of what was left out. */
  readonly dropped: string[] = [];
  private readonly seen = new Set<string>();
  /** What was changed within its meaning, and why. */
  readonly notices: string[] = [];
  /** How many of them give the same reason. */
  private readonly counts = new Map<string, number>();

  /**
   * @param target names provider and protocol, for messages
   * @param strict whether a loss is a refusal
   */
  constructor(
    private readonly target: string,
    readonly strict: boolean,
  ) {}

  /**
   * Looks up everything that the client asks for.
   * @param names what blocks that only their vendor understands are called, by their paths
   * @throws GatewayError `not_translatable` for what would change the answer
   */
  judge(uses: readonly FeatureUse[], table: SupportTable, names?: ReadonlyMap<string, string>): void {
    for (const { feature, path, hint, details } of uses) {
      const { support, note } = supportOf(table, feature);
      const name = names?.get(path);
      const what = name === undefined ? FEATURES[feature] : `${FEATURES[feature]} ("${name}")`;
      const why = `${what} cannot be said in ${this.target}${note === undefined ? "" : ` (${note})`}`;
      if (support === "refused") this.refuse(path, why, hint, details);
      else if (support === "dropped") this.drop(path, why);
    }
  }

  drop(path: string, why: string): void {
    if (this.strict) this.refuse(path, `${why}, and nothing may be dropped`);
    if (this.seen.has(path)) return;
    this.seen.add(path);
    this.dropped.push(path);
  }

  change(path: string, why: string): void {
    if (this.strict) this.refuse(path, `${why}, and nothing may be changed`);
    this.add(`${path}: ${why}`, why);
  }

  /** Says something once. */
  note(text: string): void {
    this.add(text, "");
  }

  private add(text: string, sort: string): void {
    const count = this.counts.get(sort) ?? 0;
    if (count >= NOTICES || this.notices.length >= ALL_NOTICES || this.notices.includes(text)) return;
    this.counts.set(sort, count + 1);
    this.notices.push(text);
  }

  /** @param hint what to do about it, where removing the field is not the way */
  refuse(path: string, why: string, hint?: string, details?: FeatureUse["details"]): never {
    throw new GatewayError("not_translatable", {
      message: `${path}: ${why}.`,
      hint:
        hint ??
        (this.strict
          ? `Remove the field, or ask without gateway-strict.`
          : `Remove the field, or ask for a model whose provider takes it.`),
      param: path,
      ...(details === undefined ? {} : { details }),
    });
  }
}
