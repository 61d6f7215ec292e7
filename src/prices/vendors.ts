/** Vendors with known prices, by their ids in genai-prices, and their hosts. */
const HOSTS = {
  openai: /(^|\.)api\.openai\.com$/,
  anthropic: /^api\.anthropic\.com$/,
  google: /(^|\.)(generativelanguage|[a-z0-9-]*aiplatform)\.googleapis\.com$/,
  azure:
    /\.(openai\.azure\.com|azure-api\.net|cognitiveservices\.azure\.com|(services|models|inference)\.ai\.azure\.com)$/,
  aws: /^bedrock-(runtime|mantle)\.[a-z0-9-]+\.(amazonaws\.com|api\.aws)$/,
  openrouter: /(^|\.)openrouter\.ai$/,
  groq: /^api\.groq\.com$/,
  "x-ai": /(^|\.)api\.x\.ai$/,
  deepseek: /^api\.deepseek\.com$/,
  mistral: /^api\.mistral\.ai$/,
  together: /^api\.together\.(xyz|ai)$/,
  perplexity: /^api\.perplexity\.ai$/,
  cerebras: /^api\.cerebras\.ai$/,
  fireworks: /^api\.fireworks\.ai$/,
  cohere: /^api\.cohere\.(ai|com)$/,
  moonshotai: /^api\.moonshot\.(ai|cn)$/,
  minimax: /^api\.minimaxi?\.(com|io)$/,
  zai: /^api\.z\.ai$/,
  voyageai: /^api\.voyageai\.com$/,
} as const;

/** The allowed values of a provider's `vendor`. */
export const VENDORS = Object.keys(HOSTS) as (keyof typeof HOSTS)[];

/** OpenAI's models before GPT-5.6, by its names. */
const OPENAI_BEFORE_MARKS = /^(?:ft:)?(?:chatgpt-|codex-|o\d|gpt-(?:[34a-z]|5(?:$|-|\.[0-5](?!\d))))/;

/**
 * Reports whether a vendor's model is known to take marks for its prompt cache: OpenAI's do from GPT-5.6 on, and older ones refuse
 * them [D], as most other vendors refuse members that they do not know.
 */
export const takesCacheMarks = (vendor: string | undefined, model: string): boolean =>
  vendor === "openai" && !OPENAI_BEFORE_MARKS.test(model);

/** Anthropic's models of version 4, with the minor version. What follows may be a date. */
const CLAUDE_4 = /claude-(?:opus|sonnet|haiku)-4(?:[-.](\d))?(?!\d)/;

/** Vendors that serve Anthropic's models under its names, with the same members. */
const CLAUDE_VENDORS: ReadonlySet<string> = new Set(["anthropic", "aws", "azure", "google"]);

/** Reports whether a vendor's model takes thinking only as a number of tokens, and refuses levels and efforts. [D] */
export function usesThinkingBudget(vendor: string | undefined, model: string): boolean {
  if (vendor === "google" && /(?:^|\/)gemini-2\.5-/.test(model)) return true;
  if (vendor === undefined || !CLAUDE_VENDORS.has(vendor)) return false;
  const [claude4, minor = 0] = CLAUDE_4.exec(model) ?? [];
  return /(?:^|[/.])claude-3-7-/.test(model) || (claude4 !== undefined && Number(minor) <= 5);
}

/** The vendor at an address, if its host is known; otherwise undefined. */
export function vendorAt({ hostname }: URL): string | undefined {
  return VENDORS.find((vendor) => HOSTS[vendor].test(hostname));
}
