/**
 * A request that is only explained: it passes its chain, but no provider is asked. Plugins that would leave something behind
 * look for it and leave nothing.
 */
export class DryRun {
  /** What plugins would do that leaves no trace in the request, in a few words each; no text of it, no value of a header. */
  readonly notes: string[] = [];
  /** What the request may use and cost at most, where a plugin has reckoned that. */
  most: { readonly tokens: number /** Nano-dollars. */; readonly cost: number } | undefined;
}
