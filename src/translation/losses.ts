import { GatewayError } from "../core/errors.ts";
import type { FeatureUse } from "./conversation.ts";
import { FEATURES, type SupportTable, supportOf } from "./features.ts";

/** Notices of one sort; what follows is the same at other places. */
const NOTICES = 8;
/** Notices in all, which become headers of the answer. */
const ALL_NOTICES = 32;

/** What one request loses on its way into another protocol. Nothing is lost without being written down here, or refused. */
export class Losses {
  /** The client's own paths of what was left out. */
  readonly dropped: string[] = [];
  private readonly gone = new Set<string>();
  /** What was changed within its meaning, and why. */
  readonly notices: string[] = [];
  /** How many of them give the same reason. */
  private readonly told = new Map<string, number>();

  /**
   * @param target names provider and protocol, for messages
   * @param strict whether a loss is a refusal
   */
  constructor(
    private readonly target: string,
    readonly strict: boolean,
  ) {}

  /** Looks up everything the client said. @throws GatewayError `not_translatable` for what would change the answer. */
  judge(said: readonly FeatureUse[], fates: SupportTable): void {
    for (const { feature, path, hint } of said) {
      const { fate, note } = supportOf(fates, feature);
      const why = `${FEATURES[feature]} cannot be said in ${this.target}${note === undefined ? "" : ` (${note})`}`;
      if (fate === "refused") this.refuse(path, why, hint);
      else if (fate === "dropped") this.drop(path, why);
    }
  }

  drop(path: string, why: string): void {
    if (this.strict) this.refuse(path, `${why}, and nothing may be dropped`);
    if (this.gone.has(path)) return;
    this.gone.add(path);
    this.dropped.push(path);
  }

  change(path: string, why: string): void {
    if (this.strict) this.refuse(path, `${why}, and nothing may be changed`);
    this.tell(`${path}: ${why}`, why);
  }

  /** Says something once. */
  note(text: string): void {
    this.tell(text, "");
  }

  private tell(text: string, sort: string): void {
    const told = this.told.get(sort) ?? 0;
    if (told >= NOTICES || this.notices.length >= ALL_NOTICES || this.notices.includes(text)) return;
    this.told.set(sort, told + 1);
    this.notices.push(text);
  }

  /** @param hint what to do about it, where removing the field is not the way */
  refuse(path: string, why: string, hint?: string): never {
    throw new GatewayError("not_translatable", {
      message: `${path}: ${why}.`,
      hint:
        hint ??
        (this.strict
          ? `Remove the field, or ask without gateway-strict.`
          : `Remove the field, or ask for a model whose provider takes it.`),
      param: path,
    });
  }
}
