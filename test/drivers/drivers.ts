/** One way of running one of the drivers in ../shared/clients. */
export interface Driver {
  /** What it is called here and on the command line. */
  name: string;
  /** Its file is `drive-<file>.mjs`. */
  file: string;
  options: readonly string[];
  /** Needs the command-line clients, 0.6 GB of them. */
  cli?: boolean;
  /** Only shows its key in another way: run with the client's own protocol alone. */
  variant?: boolean;
}

/** The longest first, so that the last one to end is a short one. */
export const DRIVERS: readonly Driver[] = [
  { name: "codex", file: "codex", options: [], cli: true },
  { name: "claude", file: "claude", options: [], cli: true },
  {
    name: "claude-api-key",
    file: "claude",
    options: ["--auth", "apiKey", "--only", "text,tool,badkey"],
    cli: true,
    variant: true,
  },
  { name: "aisdk", file: "aisdk", options: [] },
  { name: "openai", file: "openai", options: [] },
  { name: "openai-4", file: "openai", options: ["--pkg", "openai-v4"] },
  { name: "anthropic", file: "anthropic", options: [] },
  { name: "anthropic-token", file: "anthropic", options: ["--auth", "token"], variant: true },
  { name: "genai", file: "genai", options: [] },
  { name: "genai-bearer", file: "genai", options: ["--auth", "bearer"], variant: true },
  { name: "raw", file: "raw", options: [] },
];

/** A protocol that providers speak behind the gateway, and how models served in it begin. */
export interface Behind {
  prefix: string;
  protocol: string;
  /** Version segment of the stub's address. */
  segment: string;
}

export const BEHIND: readonly Behind[] = [
  { prefix: "chat", protocol: "openai-chat", segment: "/v1" },
  { prefix: "resp", protocol: "openai-responses", segment: "/v1" },
  { prefix: "ant", protocol: "anthropic-messages", segment: "/v1" },
  { prefix: "gem", protocol: "gemini", segment: "/v1beta" },
];

/** Every scenario of the stub that a driver asks for has a model of its own, named after it. */
export function modelsFor(scenarios: readonly string[]): string[] {
  const statuses = [400, 401, 403, 404, 413, 429, 500, 503, 529];
  return [...scenarios, "img", "once429", ...statuses.map((status) => `err${status}`)]
    .filter((name) => /^[a-z0-9]+$/.test(name))
    .map((name) => `stub-${name}`);
}

/**
 * The gateway.yaml of the run, with the stub as every provider: a model of the scenario's name that is served in whatever
 * protocol its client speaks, and one for each protocol that is served in this one only.
 */
export function configuration(stub: string, models: readonly string[], key: string): string {
  const native = models.map((name) => `  ${name}: { targets: [any:${name}] }`);
  const behind = BEHIND.flatMap(({ prefix }) =>
    models.map((name) => `  ${prefix}-${name}: { targets: [${prefix}:${name}] }`),
  );
  const providers = BEHIND.map(
    ({ prefix, protocol, segment }) =>
      `  ${prefix}: { url: "${stub}${segment}", credential: stub-credential, speaks: [${protocol}] }`,
  );
  return `listen: 127.0.0.1:0
admin: 127.0.0.1:0
store: { ledger: "sqlite:./gateway.db" }
keys: { driver: { key: ${key} } }
providers:
  any:
    url: ${stub}
    credential: stub-credential
    speaks: [openai-chat, openai-responses, openai-completions, openai-images, openai-embeddings, anthropic-messages, gemini]
${providers.join("\n")}
models:
${[...native, ...behind].join("\n")}
`;
}
