import { type Edit, foldCase, GatewayError, removeMembers, type Scan, scan, splice } from "model-gateway";
import { type Mark, type MarkPlace, marksIn } from "./catalogue.ts";

/** A mark found in a request: its name, never its value. */
export interface FoundMark {
  readonly name: string;
  readonly mark: Mark;
}

/** Maximum number of cached names, and their maximum length; a client can invent any number. */
const MAX_CACHED = 500;
const MAX_CACHED_NAME = 64;

/** Finds the mark of a name, case-insensitively, as many servers compare names: exact names first, then the longest prefix. */
export class MarkNames {
  private readonly exact = new Map<string, Mark>();
  /** Prefixes by their first letters, so that a clean name costs two look-ups for any size of the catalogue. */
  private readonly prefixes = new Map<number, { prefix: string; mark: Mark }[]>();
  /** Cached results by name, null for none: the same few names occur in every message. */
  private readonly cache = new Map<string, Mark | null>();

  constructor(
    marks: Iterable<readonly [pattern: string, mark: Mark]>,
    private readonly allowed: ReadonlySet<string>,
  ) {
    for (const [pattern, mark] of marks) {
      if (!pattern.endsWith("*")) {
        this.exact.set(foldCase(pattern), mark);
        continue;
      }
      const prefix = foldCase(pattern.slice(0, -1));
      const bucket = this.prefixes.get(prefixKey(prefix)) ?? [];
      bucket.push({ prefix, mark });
      this.prefixes.set(
        prefixKey(prefix),
        bucket.sort((a, b) => b.prefix.length - a.prefix.length),
      );
    }
  }

  /** Reports whether a name is a mark. */
  readonly has = (name: string): boolean => this.find(name) !== undefined;

  find(name: string): Mark | undefined {
    const known = this.cache.get(name);
    if (known !== undefined) return known ?? undefined;
    const like = foldCase(name);
    const allowed = this.allowed.has(name) || this.allowed.has(like);
    const mark = allowed ? undefined : (this.exact.get(like) ?? this.findPrefix(like)?.mark);
    if (this.cache.size < MAX_CACHED && name.length <= MAX_CACHED_NAME) this.cache.set(name, mark ?? null);
    return mark;
  }

  /** Returns the prefix of a name that has more characters after it. */
  findPrefix(name: string): { prefix: string; mark: Mark } | undefined {
    const bucket = this.prefixes.get(prefixKey(name));
    return bucket?.find(({ prefix }) => name.length > prefix.length && name.startsWith(prefix));
  }
}

/** Returns the first three letters as a number; every prefix of the catalogue has three. */
const prefixKey = (name: string): number =>
  (name.charCodeAt(0) << 20) ^ (name.charCodeAt(1) << 10) ^ name.charCodeAt(2);

/** The marks inside a member: of its object, or of each object of its array. */
interface Subtree {
  readonly level: MarkTree;
  readonly each: boolean;
}

/** What a member's name may be: a mark, or that of a member with marks inside. */
interface NameMarks {
  readonly mark: Mark | undefined;
  readonly deeper: Subtree | undefined;
}

const NO_MARKS: NameMarks = { mark: undefined, deeper: undefined };

interface SearchResult {
  readonly found: readonly FoundMark[];
  readonly edits: readonly Edit[];
}

const NOTHING_FOUND: SearchResult = { found: [], edits: [] };

/** The marks at one level of a JSON body, and the members with marks at deeper levels. */
export class MarkTree {
  private readonly names: MarkNames;
  private readonly subtrees = new Map<string, Subtree>();
  /** Cached results by name: the same few names occur in every message. */
  private readonly cache = new Map<string, NameMarks>();

  /** @param marks by the rest of their path from this level. */
  constructor(marks: readonly (readonly [path: string, mark: Mark])[], allowed: ReadonlySet<string>) {
    this.names = new MarkNames(
      marks.filter(([path]) => !path.includes(".")),
      allowed,
    );
    const deeper = Map.groupBy(
      marks.filter(([path]) => path.includes(".")),
      ([path]) => path.slice(0, path.indexOf(".")),
    );
    for (const [step, rest] of deeper) {
      const level = new MarkTree(
        rest.map(([path, mark]) => [path.slice(step.length + 1), mark]),
        allowed,
      );
      this.subtrees.set(foldCase(step.replace("[]", "")), { level, each: step.endsWith("[]") });
    }
  }

  /**
   * Finds marks in an object.
   * @param scanned the object's members
   * @param source has their bytes
   * @param take whether a mark is to be removed
   * @param provider its address, where only values are searched that are marks to other providers
   * @returns the marks found, and the edits that remove the taken ones
   */
  search(
    scanned: Scan,
    source: { slice(start: number, end: number): Buffer },
    take: ShouldRemove,
    provider?: URL,
  ): SearchResult {
    for (const { name } of scanned.members)
      if (this.marksOf(name) !== NO_MARKS) return this.searchMarked(scanned, source, take, provider);
    return NOTHING_FOUND;
  }

  private searchMarked(...[scanned, source, take, provider]: Parameters<MarkTree["search"]>): SearchResult {
    const found: FoundMark[] = [];
    const edits: Edit[] = [];
    let gone: Set<string> | undefined;
    for (const { name, start, end, kind } of scanned.members) {
      const { mark, deeper } = this.marksOf(name);
      if (
        mark &&
        (mark.kinds === undefined || mark.kinds.has(kind)) &&
        !isExempt(mark, () => source.slice(start, end), provider)
      ) {
        found.push({ name, mark });
        if (take(mark)) gone = (gone ?? new Set()).add(name);
        continue;
      }
      if (!deeper) continue;
      const value = source.slice(start, end);
      const inner = deeper.each ? deeper.level.inList(value, take) : deeper.level.inObject(value, take, name);
      const path = deeper.each ? `${name}[]` : name;
      for (const one of inner.found) found.push({ name: `${path}.${one.name}`, mark: one.mark });
      if (inner.bytes !== value) edits.push({ start, end, bytes: inner.bytes });
    }
    if (gone) edits.push(...removeMembers(scanned, gone));
    return { found, edits };
  }

  private marksOf(name: string): NameMarks {
    const known = this.cache.get(name);
    if (known) return known;
    const mark = this.names.find(name);
    const deeper = this.subtrees.get(foldCase(name));
    const marks = mark || deeper ? { mark, deeper } : NO_MARKS;
    if (this.cache.size < MAX_CACHED && name.length <= MAX_CACHED_NAME) this.cache.set(name, marks);
    return marks;
  }

  /**
   * Does the same in an object's JSON; other JSON has no marks. Returns the given bytes if nothing is taken.
   * @param name the object's, for the error
   * @throws GatewayError `invalid_field` for more members than `MAX_MEMBERS`
   */
  inObject(bytes: Buffer, take: ShouldRemove, name = ""): Cleaned {
    if (bytes[0] !== OPEN_OBJECT) return { found: [], bytes };
    const scanned = scanInner(bytes, name);
    const { found, edits } = this.search(scanned, bytes, take);
    return { found, bytes: edits.length > 0 ? Buffer.concat(splice([bytes], edits)) : bytes };
  }

  /** Does the same in every object of an array. */
  private inList(bytes: Buffer, take: ShouldRemove): Cleaned {
    const found: FoundMark[] = [];
    const edits: Edit[] = [];
    for (const [start, end] of elements(bytes)) {
      const element = bytes.subarray(start, end);
      const inner = this.inObject(element, take);
      found.push(...inner.found);
      if (inner.bytes !== element) edits.push({ start, end, bytes: inner.bytes });
    }
    return { found, bytes: edits.length > 0 ? Buffer.concat(splice([bytes], edits)) : bytes };
  }
}

type ShouldRemove = (mark: Mark) => boolean;

/** Reports whether a value is a mark's exception, which the provider, if known, reads. */
function isExempt({ except, pattern }: Mark, value: () => Buffer, provider: URL | undefined): boolean {
  if (except === undefined || (provider && !`.${provider.hostname}`.endsWith(`.${except.host}`))) return false;
  const bytes = value();
  if (bytes[0] !== OPEN_OBJECT) return false;
  const scanned = scanInner(bytes, pattern);
  return except.members.some((name) => scanned.find(name) !== undefined);
}

/** Maximum members of a searched object: each takes a microsecond, and vendors accept 16 in `metadata`. */
const MAX_MEMBERS = 1000;

/** Scans an object within a body that has been scanned: in it any names are valid. */
function scanInner(bytes: Buffer, name: string): Scan {
  try {
    return scan(bytes, { duplicates: "allow", surrogates: "allow", maxMembers: MAX_MEMBERS });
  } catch (cause) {
    const message = `${name} has more than ${MAX_MEMBERS} members.`;
    throw new GatewayError("invalid_field", { message, param: name, cause });
  }
}

interface Cleaned {
  found: readonly FoundMark[];
  bytes: Buffer;
}

const QUOTE = 0x22;
const COMMA = 0x2c;
const BACKSLASH = 0x5c;
const OPEN_ARRAY = 0x5b;
const OPEN_OBJECT = 0x7b;
const CLOSE_ARRAY = 0x5d;
const CLOSE_OBJECT = 0x7d;

/** Returns the spans of an array's elements, without surrounding white space; none for other values. */
function elements(bytes: Buffer): [start: number, end: number][] {
  const spans: [number, number][] = [];
  if (bytes[0] !== OPEN_ARRAY) return spans;
  let depth = 0;
  let from = -1;
  let last = 0;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at] as number;
    if (byte <= 0x20) continue;
    const closes = byte === CLOSE_ARRAY || byte === CLOSE_OBJECT;
    if (from >= 0 && depth === 1 && (byte === COMMA || closes)) {
      spans.push([from, last]);
      from = -1;
    } else if (from < 0 && depth === 1 && !closes) from = at;
    if (byte === QUOTE) while (++at < bytes.length && bytes[at] !== QUOTE) if (bytes[at] === BACKSLASH) at++;
    if (byte === OPEN_ARRAY || byte === OPEN_OBJECT) depth++;
    else if (closes) depth--;
    last = at + 1;
  }
  return spans;
}

/** Finds routing in a model's name. */
export class ModelMarks {
  private readonly prefixes: MarkNames;
  private readonly suffixes: { suffix: string; mark: Mark }[];

  constructor(marks: readonly Mark[]) {
    const suffixes = marks.filter(({ pattern }) => pattern.startsWith("*"));
    this.suffixes = suffixes.map((mark) => ({ suffix: mark.pattern.slice(1), mark }));
    const prefixes = marks.filter((mark) => !suffixes.includes(mark));
    this.prefixes = new MarkNames(
      prefixes.map((mark) => [mark.pattern, mark]),
      new Set(),
    );
  }

  /** Removes one mark from a model's name, and returns both; undefined when it has none. */
  removeOne(name: string): { name: string; found: FoundMark } | undefined {
    const before = this.prefixes.findPrefix(name);
    if (before) return { name: name.slice(before.prefix.length), found: { name: before.prefix, mark: before.mark } };
    const after = this.suffixes.find(({ suffix }) => name.length > suffix.length && name.endsWith(suffix));
    return after && { name: name.slice(0, -after.suffix.length), found: { name: after.suffix, mark: after.mark } };
  }
}

/** All marks of one protocol. */
export interface MarkTable {
  headers: MarkNames;
  query: MarkNames;
  model: ModelMarks;
  body: MarkTree;
  /** Marks of the body that some providers read; undefined: there are none. */
  exceptions: MarkTree | undefined;
  answerHeaders: MarkNames;
  answerBody: MarkTree;
  /** Last names of the response paths, for a quick search in bytes. */
  answerNames: readonly Buffer[];
  /** Texts of event-stream comments. */
  comments: readonly Buffer[];
}

/** Cached tables, by protocol and allowed names. */
const tables = new Map<string, MarkTable>();
/** Maximum number of cached tables; an operator who changes the allowed names creates others with each reload. */
const MAX_TABLES = 100;

/**
 * Returns the catalogue for one protocol. Built once, not for each generation: it takes a millisecond or more, for which the
 * generation's first request would wait.
 * @param allowed patterns and names that the operator lets pass, in lower case for headers
 */
export function markTableFor(protocol: string, allowed: ReadonlySet<string>): MarkTable {
  const name = JSON.stringify([protocol, ...allowed]);
  const known = tables.get(name);
  if (known) return known;
  if (tables.size >= MAX_TABLES) tables.clear();
  const table = buildTable(protocol, allowed);
  tables.set(name, table);
  return table;
}

function buildTable(protocol: string, allowed: ReadonlySet<string>): MarkTable {
  const marks = marksIn(protocol, allowed);
  const at = (place: MarkPlace) => marks.filter(({ where }) => where === place);
  const named = (place: MarkPlace) => at(place).map((mark) => [mark.pattern, mark] as const);
  const excepts = named("body").filter(([, { except }]) => except !== undefined);
  const last = (pattern: string) => pattern.slice(pattern.lastIndexOf(".") + 1).replace("*", "");
  return {
    headers: new MarkNames(named("header"), allowed),
    query: new MarkNames(named("query"), allowed),
    model: new ModelMarks(at("model")),
    body: new MarkTree(named("body"), allowed),
    exceptions: excepts.length > 0 ? new MarkTree(excepts, allowed) : undefined,
    answerHeaders: new MarkNames(named("response-header"), allowed),
    answerBody: new MarkTree(named("response-body"), allowed),
    answerNames: [...new Set(at("response-body").map(({ pattern }) => last(pattern)))].map((name) =>
      Buffer.from(`"${name}`),
    ),
    comments: at("response-comment").map(({ pattern }) => Buffer.from(pattern)),
  };
}
