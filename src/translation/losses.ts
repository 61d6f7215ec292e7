import { GatewayError } from "../core/errors.ts";
import { shorten } from "../core/shorten.ts";
import type { FeatureUse } from "./conversation.ts";
import { FEATURES, type SupportTable, supportOf } from "./features.ts";

/** Maximum notices of one sort; further ones would repeat it for other places. */
const MAX_NOTICES = 8;
/** Maximum notices in total: they become headers of the response. */
const ALL_NOTICES = 32;
/** Dropped paths that are looked at: more than any header shows. Further ones are only counted. */
const MAX_CHECKED_PATHS = 1000;
/** Maximum characters of a path, and of a notice: both may contain names that the client or the provider has made up. */
export const MAX_PATH_LENGTH = 200;
const MAX_NOTICE_LENGTH = 500;

/** What one request loses when it is written in another protocol. Every loss is recorded here, or refused. */
export class Losses {
  /** The client's own paths of omitted fields; the first of them once each, and shortened. */
  readonly dropped: string[] = [];
  private readonly droppedPaths = new Set<string>();
  /** Changes within the meaning of a value, and their reasons. */
  readonly notices: string[] = [];
  /** Number of notices by reason. */
  private readonly counts = new Map<string, number>();

  /**
   * @param target provider and protocol, for messages
   * @param strict whether a loss is refused
   */
  constructor(
    private readonly target: string,
    readonly strict: boolean,
  ) {}

  /**
   * Handles every feature that the client uses.
   * @param names names of blocks that only their vendor understands, by their paths
   * @throws GatewayError `not_translatable` for a feature whose loss would change the response
   */
  applySupport(uses: readonly FeatureUse[], table: SupportTable, names?: ReadonlyMap<string, string>): void {
    for (const { feature, path, hint, details } of uses) {
      const { support, note } = supportOf(table, feature);
      if (support !== "refused" && support !== "dropped") continue;
      if (support === "dropped" && !this.strict) {
        this.list(path);
        continue;
      }
      const name = names?.get(path);
      const described = name === undefined ? FEATURES[feature] : `${FEATURES[feature]} ("${name}")`;
      const why = `${described} cannot be expressed in ${this.target}${note === undefined ? "" : ` (${note})`}`;
      if (support === "refused") this.refuse(path, why, hint, details);
      else this.drop(path, why);
    }
  }

  drop(path: string, why: string): void {
    if (this.strict) this.refuse(path, `${why}, and nothing may be dropped`);
    this.list(path);
  }

  private list(path: string): void {
    if (this.dropped.length >= MAX_CHECKED_PATHS) {
      this.dropped.push(path);
      return;
    }
    if (this.droppedPaths.has(path)) return;
    this.droppedPaths.add(path);
    this.dropped.push(shorten(path, MAX_PATH_LENGTH));
  }

  change(path: string, why: string): void {
    if (this.strict) this.refuse(path, `${why}, and nothing may be changed`);
    this.add(`${shorten(path, MAX_PATH_LENGTH)}: ${why}`, why);
  }

  /** Records a notice, once. */
  note(text: string): void {
    this.add(text, "");
  }

  private add(notice: string, sort: string): void {
    const text = shorten(notice, MAX_NOTICE_LENGTH);
    const count = this.counts.get(sort) ?? 0;
    if (count >= MAX_NOTICES || this.notices.length >= ALL_NOTICES || this.notices.includes(text)) return;
    this.counts.set(sort, count + 1);
    this.notices.push(text);
  }

  /** @param hint what to do about it, where removing the field is not the way */
  refuse(path: string, why: string, hint?: string, details?: FeatureUse["details"]): never {
    throw new GatewayError("not_translatable", {
      message: `${shorten(path, MAX_PATH_LENGTH)}: ${why}.`,
      hint:
        hint ??
        (this.strict
          ? `Remove the field, or send the request without gateway-strict.`
          : `Remove the field, or choose a model whose provider accepts it.`),
      param: path,
      ...(details === undefined ? {} : { details }),
    });
  }
}
