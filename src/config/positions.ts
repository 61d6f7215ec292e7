import {
  Alias,
  type Document,
  isAlias,
  isCollection,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Pair,
  parseDocument,
  visit,
  type YAMLError,
  type YAMLMap,
} from "yaml";
import { literalSecretNodes, type MaskedText, mask, nodeSpan, pairName, type Span } from "./masking.ts";
import type { ConfigPath, Finding, Problem } from "./problems.ts";
import { type EnumeratedValues, starSecrets } from "./secrets.ts";
import { unknownNameMessage } from "./suggest.ts";

/** Messages for syntax errors, for readers who do not know YAML's grammar. */
const SYNTAX: Partial<Record<YAMLError["code"], string>> = {
  TAB_AS_INDENT: "a tab cannot indent; use spaces",
  DUPLICATE_KEY: "this name is defined twice here; keep one",
  MULTIPLE_DOCS: "a second document starts here; remove the ---",
  BAD_SCALAR_START: "a value cannot start with this character; put the value in quotes",
  BAD_INDENT: "the indentation does not fit the lines around it, or a bracket before it is not closed",
  BLOCK_AS_IMPLICIT_KEY:
    'a value cannot hold another "name: value"; put the value in quotes, or the name on a line of its own',
  MULTILINE_IMPLICIT_KEY: 'a name must be followed by ": " on its own line',
  TAG_RESOLVE_FAILED:
    "tags (!name, !!name) mean nothing here; remove it: a variable is written $NAME, the text of a file $file:PATH",
  NON_STRING_KEY: "a name must be a text, not a list, a map or an alias",
  UNEXPECTED_TOKEN: "not expected here; a bracket or quote before it may be missing or one too many",
};

/** Maximum characters of a line that are shown, and of those before the error. */
const [MAX_SHOWN_LINE, MAX_SHOWN_BEFORE] = [160, 60] as const;
const ELLIPSIS = "…";
/** Characters around an error that are searched for a reference. */
const REFERENCE_DISTANCE = 80;

/** The text of a YAML file, its values, and the position of each. Built once; never throws for invalid text. */
export class YamlSource {
  /** The values of the file, with anchors and `<<` resolved; undefined for a syntax error. */
  readonly values: unknown;
  /** Syntax errors: only the first one, as the rest mostly follow from it; and every duplicate name. */
  readonly problems: readonly Problem[];
  private readonly document: Document;
  private readonly counter = new LineCounter();
  private readonly text: string;
  /** Created on demand, with the option words known by then. */
  private shown: (MaskedText & { lines: readonly string[] }) | undefined;
  private enumeratedAt: EnumeratedValues = () => [];
  /** The pairs of each map by name, of equal names the last. */
  private readonly pairs = new Map<YAMLMap, Map<string | undefined, Pair>>();

  /**
   * @param file the name to show
   * @param text the file's content
   */
  constructor(
    private readonly file: string,
    text: string,
  ) {
    this.text = text.replace(/^\uFEFF/, "");
    this.document = parseDocument(this.text, {
      lineCounter: this.counter,
      merge: true,
      // Tags like !!set and !!binary would give values that are no text, number, list or map.
      resolveKnownTags: false,
      // A model named 4.10 is not 4.1.
      stringKeys: true,
      prettyErrors: false,
      logLevel: "error",
    });
    const { problems, broken } = this.checkSyntax();
    if (broken) this.problems = problems;
    else
      try {
        this.values = this.document.toJS({ maxAliasCount: 100 });
        this.problems = problems;
      } catch (thrown) {
        this.problems = [...problems, this.problemAt(this.lastAliasSpan(), conversionMessage(thrown as Error))];
      }
  }

  /** Returns a finding with its position. If nothing exists at its path, the nearest existing parent is used. */
  locate(finding: Finding): Problem {
    return this.problemAt(this.span(finding), finding.message, finding.severity);
  }

  position(finding: Pick<Finding, "path" | "key">): { file: string; line: number; column: number } {
    const { line, col } = this.counter.linePos(this.span({ ...finding, message: "" })[0]);
    return { file: this.file, line: Math.max(1, line), column: Math.max(1, col) };
  }

  /** Returns the literal secrets in the text, in order: the path and line of each. */
  literalSecrets(): { path: ConfigPath; line: number }[] {
    return literalSecretNodes(this.document)
      .map(([path, node]) => ({ path, at: nodeSpan(node)?.[0] ?? 0 }))
      .sort((one, other) => one.at - other.at)
      .map(({ path, at }) => ({ path, line: this.counter.linePos(at).line }));
  }

  /** The text with stars for all its secrets, all characters at their positions. */
  get masked(): string {
    return this.mask().text;
  }

  /** Shows values that plugin schemas enumerate in frames from now on. */
  setEnumeratedValues(enumeratedAt: EnumeratedValues): void {
    this.enumeratedAt = enumeratedAt;
    this.shown = undefined;
  }

  private mask(): MaskedText & { lines: readonly string[] } {
    if (!this.shown) {
      const masked = mask(this.document, this.text, this.enumeratedAt);
      this.shown = { ...masked, lines: masked.text.split(/\r?\n/) };
    }
    return this.shown;
  }

  private checkSyntax(): { problems: Problem[]; broken: boolean } {
    const mistakes = [...this.document.errors, ...this.document.warnings];
    const first = mistakes.find((mistake) => mistake.code !== "DUPLICATE_KEY");
    if (first) {
      const message = this.isInReference(first)
        ? `between { } write a reference in quotes: "$\{NAME}"`
        : this.isInTemplate(first)
          ? "{{ }} is not filled in here; a variable is written $NAME"
          : syntaxMessage(first);
      return { problems: [this.problemAt(this.syntaxErrorSpan(first), message)], broken: true };
    }
    const version = this.versionProblem();
    if (version) return { problems: [version], broken: true };
    const doubled = mistakes.map((mistake) => this.problemAt(mistake.pos, syntaxMessage(mistake)));
    const dangling = this.checkAnchors();
    return { problems: [...doubled, ...dangling, ...this.checkEncoding()], broken: dangling.length > 0 };
  }

  /**
   * Warns of the first character that was not UTF-8: a name or a key with it would never match. It may be in the file as U+FFFD,
   * where an editor has saved what it had read.
   */
  private checkEncoding(): Problem[] {
    const at = this.text.indexOf("\uFFFD");
    const message = "this character was not UTF-8: write it again, and save the file as UTF-8";
    return at < 0 ? [] : [this.problemAt([at, at + 1], message, "warning")];
  }

  /** Returns an error for a directive that asks for another version of YAML, in which `on` and `off` are no texts. */
  private versionProblem(): Problem | undefined {
    if (this.document.directives?.yaml.version !== "1.1") return undefined;
    const from = this.text.search(/^%YAML/m);
    const message = "files are read as YAML 1.2, in which on, off, yes and no are texts; remove this line";
    return this.problemAt([from, from + "%YAML 1.1".length], message);
  }

  /** Finds undefined aliases, and `<<` with a value that cannot be merged. */
  private checkAnchors(): Problem[] {
    const problems: Problem[] = [];
    const anchors = new Set<string>();
    visit(this.document, {
      Pair: (_, pair) => {
        const merged = pairName(pair) === "<<" ? this.resolveAlias(pair.value) : undefined;
        const sources = isSeq(merged) ? merged.items.map((item) => this.resolveAlias(item)) : [merged];
        if (sources.some((source) => source !== undefined && !isMap(source)))
          problems.push(
            this.problemAt(nodeSpan(pair.key) ?? [0, 0], "<< takes the alias of a map, or a list of such aliases"),
          );
      },
      Node: (_, node) => {
        if (!isAlias(node) && node.anchor) anchors.add(node.anchor);
        if (isAlias(node) && !anchors.has(node.source))
          problems.push(this.problemAt(nodeSpan(node) ?? [0, 0], unknownNameMessage("anchor", node.source, anchors)));
      },
    });
    return problems;
  }

  /** Returns the position of the last alias, which multiplies all before it. */
  private lastAliasSpan(): Span {
    const spans: Span[] = [];
    visit(this.document, { Alias: (_, node) => void spans.push(nodeSpan(node) ?? [0, 0]) });
    return spans.at(-1) ?? [0, 0];
  }

  private span({ path, key, part }: Finding): Span {
    let node: unknown = this.document.contents;
    let name: Span | undefined;
    let value: Span = nodeSpan(node) ?? [0, 0];
    for (const step of path) {
      const next = this.step(node, step);
      if (!next) return name ?? value;
      node = next.node;
      name = next.name;
      value = nodeSpan(node) ?? name ?? value;
    }
    if (path.length === 0) return [0, 0];
    if (name && (key || isCollection(node) || value[0] === value[1])) return name;
    return part && isScalar(node) ? this.partSpan(value, part) : value;
  }

  private step(node: unknown, step: string | number): { node: unknown; name?: Span } | undefined {
    const here = this.resolveAlias(node);
    if (isSeq(here)) {
      const item = here.items[step as number];
      return item === undefined ? undefined : { node: this.resolveAlias(item) };
    }
    const pair = isMap(here) ? this.findPair(here, String(step)) : undefined;
    const name = pair && nodeSpan(pair.key);
    return pair && { node: this.resolveAlias(pair.value), ...(name && { name }) };
  }

  /** Returns the pair of that name in a map, or in a map merged into it with `<<`. */
  private findPair(map: YAMLMap, name: string): Pair | undefined {
    const pairs = this.pairs.getOrInsertComputed(map, () => new Map(map.items.map((pair) => [pairName(pair), pair])));
    const own = pairs.get(name);
    if (own) return own;
    for (const merged of map.items.filter((pair) => pairName(pair) === "<<")) {
      const from = this.resolveAlias(merged.value);
      for (const source of isSeq(from) ? from.items : [from]) {
        const map = this.resolveAlias(source);
        const found = isMap(map) && this.findPair(map, name);
        if (found) return found;
      }
    }
    return undefined;
  }

  private resolveAlias(node: unknown): unknown {
    return node instanceof Alias ? node.resolve(this.document) : node;
  }

  /** Reports whether an error is about the braces of `${NAME}`, which inside { } begin a map. */
  private isInReference({ pos: [from] }: YAMLError): boolean {
    const around = this.text.slice(Math.max(0, from - REFERENCE_DISTANCE), from + REFERENCE_DISTANCE);
    const at = Math.min(from, REFERENCE_DISTANCE);
    return [...around.matchAll(/\$\{[^\s{}]*\}/g)].some(
      ({ index, 0: { length } }) => index <= at && at <= index + length,
    );
  }

  /** Reports whether an error is about the second brace of `{{ NAME }}`. */
  private isInTemplate({ code, pos: [from] }: YAMLError): boolean {
    return code === "NON_STRING_KEY" && this.text.slice(from - 1, from + 1) === "{{";
  }

  /** Returns the span of a syntax error; of an unclosed quote its line, not the end of the file, where the parser reports it. */
  private syntaxErrorSpan({ code, message, pos }: YAMLError): Span {
    const quote = /closing (["'])/.exec(message)?.[1];
    if (code !== "MISSING_CHAR" || quote === undefined) return pos;
    const plain = (line: string) => line.replaceAll(/\\./g, "xx").replace(/(?:^|\s)#.*$/, "");
    let start = 0;
    for (const line of this.text.split("\n")) {
      const quotes = plain(line).split(quote).length - 1;
      if (quotes % 2 === 1) return [start + plain(line).lastIndexOf(quote), start + line.length];
      start += line.length + 1;
    }
    return pos;
  }

  /** Returns a part of a scalar's span; the whole span if escapes make the text longer than the value. */
  private partSpan([from, to]: Span, part: { from: number; length: number }): Span {
    const quote = /^["']/.test(this.text.slice(from, to)) ? 1 : 0;
    const start = from + quote + part.from;
    return this.text.slice(from, to).includes("\\") || start + part.length > to
      ? [from, to]
      : [start, start + part.length];
  }

  private problemAt([from, to]: Span, message: string, severity: Problem["severity"] = "error"): Problem {
    const { line, col } = this.counter.linePos(from);
    const first = Math.max(1, line);
    const column = Math.max(1, col);
    return {
      file: this.file,
      line: first,
      column,
      message: starSecrets(message, this.mask().secrets),
      frame: this.frame(first, column, to - from),
      severity,
    };
  }

  /**
   * Returns the line before, the line itself, and carets; tabs are kept so that the carets line up. Long lines are cut around the
   * error.
   */
  private frame(line: number, column: number, length: number): string {
    const { lines } = this.mask();
    const width = String(line).length;
    const from = column <= MAX_SHOWN_LINE - MAX_SHOWN_BEFORE ? 0 : column - 1 - MAX_SHOWN_BEFORE;
    const shown = (line: string) => {
      const part = line.slice(from, from + MAX_SHOWN_LINE);
      return (from > 0 && part !== "" ? ELLIPSIS : "") + part + (line.length > from + MAX_SHOWN_LINE ? ELLIPSIS : "");
    };
    const text = shown(lines[line - 1] ?? "");
    const before = column - 1 - from + (from > 0 ? ELLIPSIS.length : 0);
    const row = (mark: string, number: string | number, shown: string) =>
      `${mark} ${String(number).padStart(width)} | ${shown}`.trimEnd();
    const carets = "^".repeat(Math.max(1, Math.min(length, text.length - before)));
    const rows = line > 1 ? [row(" ", line - 1, shown(lines[line - 2] ?? ""))] : [];
    rows.push(row(">", line, text), row(" ", "", text.slice(0, before).replaceAll(/[^\t]/g, " ") + carets));
    return rows.join("\n");
  }
}

/** Returns why valid YAML has no values. */
const conversionMessage = ({ message }: Error): string =>
  message.startsWith("Excessive alias count")
    ? "aliases (*name) of aliases make the file too large; write out what they repeat"
    : message;

/** Returns a syntax error's message; the library's may repeat source text after a colon, which may contain a secret. */
function syntaxMessage(mistake: YAMLError): string {
  const message = mistake.message.replace(/:.*$/s, "").replace(/(["'])quote$/, "$1");
  if (/^unresolved tag: tag:yaml\.org,2002:(?:str|int|float|bool|null|map|seq)$/i.test(mistake.message))
    return "this value is not what its tag says; remove the tag";
  if (message.startsWith("Block collections"))
    return "within brackets a value that ends with a colon needs quotes, and a list or a map needs brackets too";
  if (message.startsWith("Implicit map keys")) return 'this line has no ": ": write "name: value"';
  if (message.includes("call stack")) return "nested too deeply; a bracket may have been repeated by mistake";
  return SYNTAX[mistake.code] ?? message.charAt(0).toLowerCase() + message.slice(1);
}
