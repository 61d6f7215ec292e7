import type { Config } from "./types.ts";

/** Reports whether the plugin `auth` accepts requests without a key. */
export const acceptsKeyless = ({ plugins }: Pick<Config, "plugins">): boolean =>
  (plugins.get("auth")?.options as { anonymous?: boolean } | undefined)?.anonymous === true;

/** Reports whether requests without a key can reach a provider: `auth` accepts them, or is not in the chain of a path. */
export const servesKeyless = (config: Pick<Config, "plugins" | "paths" | "chains">): boolean =>
  acceptsKeyless(config) ||
  config.paths.some(({ protocol, pass, use }) => (protocol ?? pass) && !config.chains.get(use)?.includes("auth"));
