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
import { cleaner } from "./scrub/answer.ts";
import { catalogue, type Mark, type MarkPlace } from "./scrub/catalogue.ts";
import { type FoundMark, type Table, tableFor } from "./scrub/match.ts";

/** Marks named in one notice; a header line is no place for a list of a thousand. */
const NAMED = 8;

/** True for what the catalogue has, or what one of its prefixes takes. */
const isListed = (name: string): boolean =>
  catalogue.some(({ where, match }) => {
    const spelled = where === "header" ? name.toLowerCase() : name;
    return match.some(
      (pattern) => pattern === spelled || (pattern.endsWith("*") && spelled.startsWith(pattern.slice(0, -1))),
    );
  });

const Choices = z.strictObject({
  mode: z
    .enum(["strip", "reject", "report"])
    .default("strip")
    .describe(
      "strip: takes other services' marks out of requests and says so; reject: refuses such requests with a 400; report: only says so.",
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
    .default("strip")
    .describe(
      "Whether other services' marks are taken out of answers: headers of all, bodies of those in aggregators.",
    ),
  aggregators: z
    .array(z.string())
    .default([])
    .describe(
      "Providers that are aggregation services themselves, by their name in providers: their answers' bodies are cleaned too.",
    ),
});

/**
 * Takes out what belongs to other aggregation services: headers and query parameters before the body is read, body members
 * and routing inside the model's name after. What is a mark is data, in scrub/catalogue.json; a field of the target's own
 * protocol never is one.
 */
@injectable()
export default class Scrub implements Plugin {
  static options = Choices;
  static after = ["auth"];
  private readonly allowed: ReadonlySet<string>;
  private readonly aggregators: ReadonlySet<string>;
  private readonly tables = new Map<string, Table>();
  private readonly takes: (mark: Mark) => boolean;

  constructor(
    @inject(Options) private readonly options: z.infer<typeof Choices>,
    private readonly marketplace: Marketplace,
    private readonly log: Log,
  ) {
    this.allowed = new Set(options.allow.flatMap((name) => [name, name.toLowerCase()]));
    this.aggregators = new Set(options.aggregators);
    this.takes = (mark) => options.mode === "strip" || (options.mode === "reject" && mark.quiet);
  }

  access(exchange: AccessExchange): void {
    const { headers, query } = this.table(exchange.protocol.name);
    const found: FoundMark[] = [];
    exchange.headers.deleteWhere((name) => {
      const mark = headers.find(name);
      if (!mark) return false;
      found.unshift({ name, mark });
      return this.takes(mark);
    });
    for (const name of exchange.query.names()) {
      const mark = query.find(name);
      if (!mark) continue;
      found.push({ name, mark });
      if (this.takes(mark)) exchange.query.delete(name);
    }
    this.tell(exchange, found);
  }

  request(exchange: RequestExchange): void {
    const table = this.table(exchange.protocol.name);
    const found = this.inModel(exchange, table);
    const { body } = exchange;
    if (body.scan) {
      const marks = table.body.search(body.scan, (start, end) => body.slice(start, end), this.takes);
      found.push(...marks.found);
      exchange.edit(marks.edits);
    }
    this.tell(exchange, found);
  }

  /** What some providers read is a mark to others; a translation reads it, and says what becomes of it. */
  send(exchange: SendExchange, attempt: Attempt): void {
    const { body, target } = attempt;
    const { name } = exchange.protocol;
    const table = this.table(name);
    const { speaks, url } = target.provider;
    if (!table.excepts || !body.scan || !speaks.includes(name) || (target.via ?? name) !== name) return;
    const { found, edits } = table.excepts.search(
      body.scan,
      (start, end) => body.slice(start, end),
      this.takes,
      url.hostname,
    );
    attempt.edit(edits);
    this.tell(exchange, found);
  }

  response(exchange: ResponseExchange, head: Head): Stage | undefined {
    if (this.options.responses === "keep" || this.options.mode === "report") return undefined;
    const table = this.table(exchange.protocol.name);
    head.headers.deleteWhere((name) => table.answerHeaders.find(name) !== undefined);
    const provider = exchange.attempt?.target.provider.name;
    const cleans = provider !== undefined && this.aggregators.has(provider);
    if (!cleans) return undefined;
    if (!head.framing) head.headers.delete("content-length");
    return cleaner(table, exchange.protocol.ping);
  }

  /** The catalogue for the protocol that the request's fields will be read in. */
  private table(protocol: string): Table {
    let table = this.tables.get(protocol);
    if (!table) {
      table = tableFor(protocol, this.allowed);
      this.tables.set(protocol, table);
    }
    return table;
  }

  /**
   * Routing in the model's name. A name of the marketplace is never a mark, whatever it looks like; another is changed only
   * to one that the caller may use, so that the refusal of an unknown model still names what was asked.
   */
  private inModel(exchange: RequestExchange, { model }: Table): FoundMark[] {
    const { requestedModel: asked } = exchange;
    if (asked === undefined || this.marketplace.find(asked)) return [];
    const found: FoundMark[] = [];
    for (let rest = model.peel(asked); rest; rest = model.peel(rest.name)) {
      found.push(rest.found);
      if (this.options.mode !== "strip" || !this.marketplace.find(rest.name, exchange.caller)) continue;
      exchange.requestedModel = rest.name;
      return found;
    }
    return this.options.mode === "strip" ? [] : found;
  }

  /** Refuses, or tells client and log; never a value. */
  private tell(exchange: Pick<AccessExchange, "id" | "notices">, found: readonly FoundMark[]): void {
    if (found.length === 0) return;
    const loud = found.filter(({ mark }) => !mark.quiet);
    const [first] = loud;
    if (first && this.options.mode === "reject") throw refusal(first, loud.slice(1));
    const did = this.options.mode === "report" ? "found" : "removed";
    this.log.debug(
      { id: exchange.id, marks: found.slice(0, NAMED).map(label), count: found.length },
      `other services' marks ${did}`,
    );
    const notice = `scrub: ${did} ${list(loud)}`;
    // Each attempt may have to go without the same.
    if (first && !exchange.notices.includes(notice)) exchange.notices.push(notice);
  }
}

/** A name as it may stand in a header and a log: one that a client made up is named by the pattern it fits. */
const shown = ({ name, mark }: FoundMark): string => (/^[\w.:$@/[\]-]{1,64}$/.test(name) ? name : mark.pattern);

const label = (found: FoundMark): string => `${shown(found)} (${found.mark.owner})`;

function list(found: readonly FoundMark[]): string {
  const named = found.slice(0, NAMED).map(label).join(", ");
  return found.length > NAMED ? `${named} and ${found.length - NAMED} more` : named;
}

const SUBJECTS: Partial<Record<MarkPlace, (name: string) => string>> = {
  header: (name) => `The header "${name}"`,
  query: (name) => `The query parameter "${name}"`,
  model: (name) => `"${name}" in the model's name`,
};

function refusal(first: FoundMark, others: readonly FoundMark[]): GatewayError {
  const name = shown(first);
  const { owner, where } = first.mark;
  const mend =
    where === "model" ? "Use a name that GET /v1/models lists." : "Remove it: this gateway chooses providers itself.";
  return new GatewayError("foreign_field", {
    message: `${SUBJECTS[where]?.(name) ?? `The field "${name}"`} belongs to ${owner}, not to this gateway.`,
    hint: others.length > 0 ? `${mend} The same holds for ${list(others)}.` : mend,
    param: where === "model" ? "model" : name,
  });
}
