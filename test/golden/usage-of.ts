/** The object in which a vendor's answer tells its counts. */
const told = (answer: unknown, name: string): Counts => (answer as Record<string, Counts | undefined>)?.[name] ?? {};
type Counts = { [name: string]: number | null | Counts | undefined };

const at = (counts: Counts, name: string): Counts => (counts[name] ?? {}) as Counts;
const count = (value: unknown): number | undefined => (typeof value === "number" ? value : undefined);
const sum = (...values: unknown[]): number | undefined =>
  values.some((value) => count(value) !== undefined)
    ? values.reduce<number>((all, value) => all + (count(value) ?? 0), 0)
    : undefined;

/** The counts of both protocols of this family, which differ in their names. */
const inFamily = (input: string, output: string) => (answer: unknown) => {
  const usage = told(answer, "usage");
  const [before, behind] = [at(usage, `${input}_tokens_details`), at(usage, `${output}_tokens_details`)];
  return {
    in: count(usage[`${input}_tokens`]),
    cached: count(before["cached_tokens"]),
    write: count(before["cache_write_tokens"]),
    out: count(usage[`${output}_tokens`]),
    reasoning: count(behind["reasoning_tokens"]),
  };
};

/** Written anew from the vendors' documents, and not with the gateway's readers, which it shall judge. */
const READERS: Record<string, (answer: unknown) => Record<string, number | undefined>> = {
  "openai-chat": inFamily("prompt", "completion"),
  "openai-responses": inFamily("input", "output"),
  "anthropic-messages": (answer) => {
    const usage = told(answer, "usage");
    const [read, written] = [usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"]];
    return {
      in: sum(usage["input_tokens"], read, written),
      cached: count(read),
      write: count(written),
      out: count(usage["output_tokens"]),
      reasoning: count(at(usage, "output_tokens_details")["thinking_tokens"]),
    };
  },
  gemini: (answer) => {
    const usage = told(answer, "usageMetadata");
    return {
      in: sum(usage["promptTokenCount"], usage["toolUsePromptTokenCount"]),
      cached: count(usage["cachedContentTokenCount"]),
      out: sum(usage["candidatesTokenCount"], usage["thoughtsTokenCount"]),
      reasoning: count(usage["thoughtsTokenCount"]),
    };
  },
};

/** The counts that every protocol can tell, from a whole answer, without those that nobody told. */
export function usageOf(protocol: string, answer: unknown): Record<string, number> {
  return Object.fromEntries(
    Object.entries(READERS[protocol]?.(answer) ?? {}).filter(
      (entry): entry is [string, number] => entry[1] !== undefined,
    ),
  );
}
