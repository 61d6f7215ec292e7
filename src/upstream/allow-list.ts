/** Names that are remembered; a client can make up any number. */
const REMEMBERED = 500;

/** Header names that may pass: a few names make up nearly all that come, so what was found for one is remembered. */
export class AllowList {
  private readonly known = new Map<string, boolean>();

  /** @param names lower-case names, or prefixes that end in `*`. */
  constructor(private readonly names: readonly string[]) {}

  readonly passes = (name: string): boolean => {
    const known = this.known.get(name);
    if (known !== undefined) return known;
    const passes = this.names.some((each) => (each.endsWith("*") ? name.startsWith(each.slice(0, -1)) : name === each));
    if (this.known.size < REMEMBERED) this.known.set(name, passes);
    return passes;
  };
}
