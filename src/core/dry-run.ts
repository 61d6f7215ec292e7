/**
 * A request that is only explained: it passes its chain, but no provider is requested. Plugins with lasting effects
 * check for it and have none.
 */
export class DryRun {
  /** Brief notes on plugin effects that the request does not show; without its text and header values. */
  readonly notes: string[] = [];
  /** The maximum use and cost of the request, if a plugin has calculated it. */
  maximum:
    | {
        readonly tokens: number;
        /** Nano-dollars. */
        readonly cost: number;
      }
    | undefined;
}
