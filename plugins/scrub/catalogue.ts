import { z } from "zod";
import listed from "./catalogue.json" with { type: "json" };

const MarkPlace = z.enum(["header", "query", "model", "body", "response-header", "response-body", "response-comment"]);

const CatalogueEntry = z.strictObject({
  /** The service that defines the mark; errors contain this name. */
  owner: z.string().min(1),
  where: MarkPlace,
  /**
   * Exact names, or prefixes that end in `*`; of a model also suffixes that begin with `*`. Headers in lower case. Body
   * names may be paths: `usage.cost`, `choices[].native_finish_reason`.
   */
  match: z.array(z.string().min(2)).min(1),
  /** Protocols whose own schema has these names: there they are never removed. */
  native: z.array(z.string()).optional(),
  /** The only protocols in which these names are marks; absent: all. */
  only: z.array(z.string()).optional(),
  /** The types of value with which a body member is a mark; absent: all. */
  kinds: z.array(z.enum(["object", "array", "string", "number", "true", "false", "null"])).optional(),
  /**
   * In one protocol an object with one of these members is not a mark: providers at this host or its subdomains read it, and so does
   * translation. It is removed from untranslated requests to other providers.
   */
  except: z
    .strictObject({ protocol: z.string(), members: z.array(z.string().min(2)).min(1), host: z.string().min(2) })
    .optional(),
  /** Set by the client's environment, not by its intent: removed without a notice, never a reason to refuse. */
  quiet: z.boolean().optional(),
  /** The value may be a credential or a URL. */
  secret: z.boolean().optional(),
  /** Where the fact was found. */
  source: z.string().min(1),
  /** How reliable it is: from source code, an issue thread, a vendor's documents, or memory. */
  evidence: z.enum(["source", "thread", "docs", "memory"]),
  note: z.string().optional(),
});

export type CatalogueEntry = z.infer<typeof CatalogueEntry>;
export type MarkPlace = z.infer<typeof MarkPlace>;

/** Names used by other aggregation services, by owner. */
export const catalogue: readonly CatalogueEntry[] = z.array(CatalogueEntry).parse(listed);

/** One pattern of the catalogue. */
export interface Mark {
  readonly owner: string;
  readonly where: MarkPlace;
  readonly pattern: string;
  readonly kinds: ReadonlySet<string> | undefined;
  readonly quiet: boolean;
  /** Exempts values that are objects with one of these members, for providers at this host. */
  readonly except?: { readonly members: readonly string[]; readonly host: string };
}

/** Returns the marks of a protocol, without allowed patterns. */
export function marksIn(protocol: string, allowed: ReadonlySet<string>): Mark[] {
  return catalogue
    .filter(({ native, only }) => !native?.includes(protocol) && (only === undefined || only.includes(protocol)))
    .flatMap(({ owner, where, match, kinds, quiet = false, except }) =>
      match
        .filter((pattern) => !allowed.has(pattern))
        .map((pattern) => ({
          owner,
          where,
          pattern,
          kinds: kinds && new Set(kinds),
          quiet,
          ...(except?.protocol === protocol ? { except } : {}),
        })),
    );
}
