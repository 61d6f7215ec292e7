import {
  type AccessExchange,
  type Attempt,
  GatewayError,
  type Head,
  Log,
  Marketplace,
  Options,
  type Plugin,
  type RequestExchange,
  type ResponseExchange,
  type SendExchange,
  type Stage,
} from "model-gateway";
import { inject, injectable } from "tsyringe";
import { z } from "zod";
import { answerScrubber } from "./scrub/answer.ts";
import { catalogue, type Mark, type MarkPlace } from "./scrub/catalogue.ts";
import { type FoundMark, type MarkTable, markTableFor } from "./scrub/match.ts";

/** Maximum number of marks named in one notice: it becomes a header. */
const MAX_NAMED = 8;

const NONE: readonly FoundMark[] = [];

/** Reports whether a name is in the catalogue, or matches one of its prefixes. */
const isListed = (name: string): boolean =>
  catalogue.some(({ where, match }) => {
    const spelled = where === "header" ? name.toLowerCase() : name;
    return match.some(
      (pattern) => pattern === spelled || (pattern.endsWith("*") && spelled.startsWith(pattern.slice(0, -1))),
    );
  });

const ScrubOptions = z.strictObject({
  mode: z
    .enum(["strip", "reject", "report"])
    .default("strip")
    .describe(
      "strip: removes other services' marks from requests, with a notice; reject: refuses such requests with a 400; report: only a notice.",
    ),
  allow: z
    .array(
      z
        .string()
        .refine(isListed, { error: ({ input }) => `"${input}" is not in the catalogue, plugins/scrub/catalogue.json` }),
    )
    .default([])
    .describe("Names or patterns of the catalogue that may pass, like provider or x-portkey-*."),
  responses: z
    .enum(["strip", "keep"])
    .optional()
    .describe(
      "Whether other services' marks are removed from answers: from headers of all providers, and from bodies of those in aggregators. Default: strip, with mode: report keep.",
    ),
  aggregators: z
    .array(z.string())
    .default([])
    .describe(
      "Providers that are aggregation services themselves, by their names in providers: marks are removed from their answers' bodies too.",
    ),
});

/**
 * Removes fields of other aggregation services: headers and query parameters before the body is read; body members and routing
 * in the model's name after it. Marks are listed in scrub/catalogue.json; a field of the target's own protocol is never one.
 */
@injectable()
export default class Scrub implements Plugin {
  static options = ScrubOptions;
  static after = ["auth"];
  private readonly allowed: ReadonlySet<string>;
  private readonly aggregators: ReadonlySet<string>;
  private readonly tables = new Map<string, MarkTable>();
  private readonly shouldRemove = (mark: Mark): boolean =>
    this.options.mode === "strip" || (this.options.mode === "reject" && mark.quiet);

  constructor(
    @inject(Options) private readonly options: z.infer<typeof ScrubOptions>,
    private readonly marketplace: Marketplace,
    private readonly log: Log,
  ) {
    this.allowed = new Set(options.allow.flatMap((name) => [name, name.toLowerCase()]));
    this.aggregators = new Set(options.aggregators);
  }

  access(exchange: AccessExchange): void {
    const { headers, query } = this.table(exchange.protocol.name);
    const found: FoundMark[] = [];
    exchange.headers.deleteWhere((name) => {
      const mark = headers.find(name);
      if (!mark) return false;
      found.push({ name, mark });
      return this.shouldRemove(mark);
    });
    for (const name of exchange.query.names()) {
      const mark = query.find(name);
      if (!mark) continue;
      found.push({ name, mark });
      if (this.shouldRemove(mark)) exchange.query.delete(name);
    }
    this.reportMarks(exchange, found);
  }

  request(exchange: RequestExchange): void {
    const table = this.table(exchange.protocol.name);
    let found = this.modelMarks(exchange, table);
    const { body } = exchange;
    if (body.scan) {
      const marks = table.body.search(body.scan, body, this.shouldRemove);
      found = found.length === 0 ? marks.found : [...found, ...marks.found];
      exchange.edit(marks.edits);
    }
    this.reportMarks(exchange, found);
  }

  /** Removes marks that only some providers read; a translation reads them, and handles them itself. */
  send(exchange: SendExchange, attempt: Attempt): void {
    const { body, target } = attempt;
    const { name } = exchange.protocol;
    const table = this.table(name);
    if (!table.exceptions || !body.scan || !Marketplace.isNative(target, name)) return;
    const { found, edits } = table.exceptions.search(body.scan, body, this.shouldRemove, target.provider.url);
    attempt.edit(edits);
    this.reportMarks(exchange, found);
  }

  response(exchange: ResponseExchange, head: Head): Stage | undefined {
    const { mode, responses = mode === "report" ? "keep" : "strip" } = this.options;
    if (responses === "keep") return undefined;
    const table = this.table(exchange.protocol.name);
    head.headers.deleteWhere(table.answerHeaders.has);
    const provider = exchange.attempt?.target.provider.name;
    const cleans = provider !== undefined && this.aggregators.has(provider);
    if (!cleans) return undefined;
    if (!head.framing) head.headers.delete("content-length");
    return answerScrubber(table, exchange.protocol.ping, head.reserve);
  }

  /** Returns the catalogue for the protocol in which the request's fields will be read. */
  private table(protocol: string): MarkTable {
    const known = this.tables.get(protocol);
    if (known) return known;
    const table = markTableFor(protocol, this.allowed);
    this.tables.set(protocol, table);
    return table;
  }

  /**
   * Finds routing in the model's name. A model of the marketplace is never changed, whatever its name; another name is changed
   * only to a model that the caller may use, so that an error about an unknown model still names the one requested.
   */
  private modelMarks(exchange: RequestExchange, { model }: MarkTable): readonly FoundMark[] {
    const { requestedModel: asked } = exchange;
    if (asked === undefined || this.marketplace.find(asked)) return NONE;
    const found: FoundMark[] = [];
    for (let rest = model.removeOne(asked); rest; rest = model.removeOne(rest.name)) {
      found.push(rest.found);
      if (this.options.mode !== "strip" || !this.marketplace.find(rest.name, exchange.caller)) continue;
      exchange.requestedModel = rest.name;
      return found;
    }
    return this.options.mode === "strip" ? [] : found;
  }

  /** Refuses the request, or reports marks to client and log; never their values. */
  private reportMarks(exchange: Pick<AccessExchange, "id" | "notices">, found: readonly FoundMark[]): void {
    if (found.length === 0) return;
    const loud = found.filter(({ mark }) => !mark.quiet);
    const [first] = loud;
    if (first && this.options.mode === "reject") throw foreignFieldError(first, loud.slice(1));
    const did = this.options.mode === "report" ? "found" : "removed";
    this.log.debug(
      { id: exchange.id, marks: found.slice(0, MAX_NAMED).map(markLabel), count: found.length },
      `other services' marks ${did}`,
    );
    const notice = `scrub: ${did} ${markList(loud)}`;
    // Several attempts may report the same notice.
    if (first && !exchange.notices.includes(notice)) exchange.notices.push(notice);
  }
}

/** Returns a name that is safe in a header and a log: an arbitrary one is replaced by the pattern it matches. */
const displayName = ({ name, mark }: FoundMark): string => (/^[\w.:$@/[\]-]{1,64}$/.test(name) ? name : mark.pattern);

const markLabel = (found: FoundMark): string => `${displayName(found)} (${found.mark.owner})`;

function markList(found: readonly FoundMark[]): string {
  const named = found.slice(0, MAX_NAMED).map(markLabel).join(", ");
  return found.length > MAX_NAMED ? `${named} and ${found.length - MAX_NAMED} more` : named;
}

const SUBJECTS: Partial<Record<MarkPlace, (name: string) => string>> = {
  header: (name) => `The header "${name}"`,
  query: (name) => `The query parameter "${name}"`,
  model: (name) => `"${name}" in the model's name`,
};

function foreignFieldError(first: FoundMark, others: readonly FoundMark[]): GatewayError {
  const name = displayName(first);
  const { owner, where } = first.mark;
  const fix =
    where === "model" ? "Use a name that GET /v1/models lists." : "Remove it: this gateway chooses providers itself.";
  return new GatewayError("foreign_field", {
    message: `${SUBJECTS[where]?.(name) ?? `The field "${name}"`} belongs to ${owner}, not to this gateway.`,
    hint: others.length > 0 ? `${fix} The same holds for ${markList(others)}.` : fix,
    param: where === "model" ? "model" : name,
  });
}
