import type { Body } from "../core/body.ts";
import { type ErrorDetails, GatewayError } from "../core/errors.ts";
import type { ObjectMembers } from "../core/object-members.ts";
import { anyCasePattern, ESCAPED_LETTER, foldCase } from "../wire/any-case.ts";
import type { Scan } from "../wire/json.ts";
import { MultiSearch } from "../wire/multi-search.ts";
import { StringStartSearch } from "../wire/text-start.ts";
import { asList, asObject, asText, type JsonObject } from "../wire/values.ts";
import { caseSpellings, Watch } from "../wire/watch.ts";
import { matchesAcross } from "./match-across.ts";
import { RecognizedObjectFinder } from "./recognized-objects.ts";
import { type PathNode, paramOf } from "./reference-path.ts";

/** An object that a request names. */
export interface ObjectReference {
  readonly id: string;
  /** The path of the field that names it, in the client's body: `input.0.content.1.file_id`; undefined: the URL path. */
  readonly param: string | undefined;
  /** The object's content is sent beside the id: only a provider that gets the client's original bytes looks the id up. */
  readonly hasContent?: true;
  /** The client may have made the id up: it is refused only where it is known to belong to another key. */
  readonly mayBeInvented?: true;
  /** The id is the name of a member that is refused by being there. */
  readonly byPresence?: true;
  /** It is a file, whose lines the vendor is asked to run as requests. */
  readonly isRun?: true;
  /** The error for an unknown id, added to the usual one or replacing parts of it. */
  readonly unknownIdError?: ErrorDetails | undefined;
}

/** Finds the objects that a pass-through body, or a line of its file, names: while it arrives and at its end. */
export interface BodyReferenceFinder {
  /** Parses a piece. @throws GatewayError for ambiguous input */
  push(bytes: Buffer): readonly ObjectReference[];
  /** Called when the whole body has arrived. @throws GatewayError for ambiguous input */
  end(): readonly ObjectReference[];
}

/** The characters of a vendor's id: none with a meaning in a path, a query or a header. */
const ID = /^[A-Za-z0-9._-]{1,128}$/;
/** Limit of objects that a request may name: each is looked up, and vendors accept a few hundred. */
const MAX_REFERENCES = 5000;
/** Characters of a client's own id that are looked up: vendors' ids are shorter. */
const MAX_CLIENT_ID = 256;
/** Length of an escaped letter, and its possible beginnings. */
const ESCAPE_LENGTH = 6;
const ESCAPE_STARTS = ["\\u00", "\\u01", "\\u21"].map((text) => Buffer.from(text));
/** What may follow `"id"` in an object with no other member: its value, and the end or a member that is null. */
const BARE_ID = /^\s*:\s*"(?:[^"\\]|\\.)*"\s*(?:\}|,\s*"(?:[^"\\]|\\.)*"\s*:\s*null)/;
/** What usually follows `"id"` in any other object. */
const NOT_BARE_ID = /^\s*:\s*(?:[^"\s]|"(?:[^"\\]|\\.)*"\s*,\s*"(?:[^"\\]|\\.)*"\s*:\s*[^n\s])/;
/** Bytes after `"id"` that are searched for these: first NEAR_BYTES, then FAR_BYTES if those decide nothing. Ids and names are short. */
const [NEAR_BYTES, FAR_BYTES] = [96, 2000] as const;
const ID_NAME = Buffer.from('"id"');
const quoted = (words: readonly string[]): MultiSearch => new MultiSearch(words.map((word) => `"${word}"`));
const IDS = quoted(["id"]);
const SOURCE = "source";
const SPELLED_ID = ["Id", "iD", "ID"];
const NUMBER = /^\d+$/;
const NO_NAMES: ReadonlySet<string> = new Set();
/** Separators of steps in a form field's name. */
const FIELD_SEPARATORS = /\]\[|[[\].]/;

/** Cached by protocol: computing all spellings takes milliseconds, and every start and reload needs them. */
const findersByMembers = new WeakMap<ObjectMembers, ReferenceFinder>();

/** Returns the finder for the objects that a protocol's requests name. */
export const referenceFinder = (members: ObjectMembers): ReferenceFinder =>
  findersByMembers.getOrInsertComputed(members, () => new ReferenceFinder(members));

/** Finds the objects that a protocol's requests name. */
export class ReferenceFinder {
  /** The path of the member whose object is only compared with. */
  readonly comparedPath: string | undefined;
  private readonly marks: MultiSearch;
  /** Types of items that agents send with each request, mostly without an id. */
  private readonly outputItemTypes: MultiSearch;
  private readonly watch: Watch;
  /** Watches for all spellings of the members that name objects at any depth: some servers ignore case. */
  private readonly variantWatch: Watch;
  private readonly variantPattern: RegExp;
  /** Characters of the longest spelling, with its quotes. */
  private readonly maxVariantLength: number;
  /** The same names in their usual spelling. */
  private readonly exactNames: ReadonlySet<string>;
  /** Folded with `foldCase`, as are the names compared with them. */
  private readonly anyDepth: ReadonlySet<string>;
  private readonly notSearched: ReadonlySet<string>;
  private readonly referenceTypes: ReadonlySet<unknown>;
  private readonly objectsOnly: ReadonlySet<string>;
  private readonly byPresence: ReadonlySet<string>;
  private readonly inlineContent: ReadonlyMap<unknown, string>;
  private readonly outputItems: ReadonlyMap<unknown, { readonly sealed: string; readonly beside: readonly string[] }>;
  private readonly sharedSourceTypes: ReadonlySet<unknown>;
  private readonly urlMembers: ReadonlySet<string>;
  private readonly urlWatch: Watch | undefined;
  /** The beginning of a text that may be an address of a stored object. */
  private readonly urlStart: StringStartSearch | undefined;
  private readonly recognized: RecognizedObjectFinder | undefined;
  /** Sets of folded names: a path with one of each leads to a file of requests. */
  private readonly requestFiles: readonly (readonly ReadonlySet<string>[])[];
  private readonly namesOnPaths = new WeakMap<object, ReadonlySet<string>>();

  constructor(private readonly members: ObjectMembers) {
    const {
      anyDepth,
      objectsOnly = [],
      byPresence = [],
      referenceTypes = [],
      inlineContent = {},
      outputItems = {},
      sharedSourceTypes = [],
    } = members;
    const named = [...referenceTypes, ...Object.keys(inlineContent)];
    const types = [...named, ...sharedSourceTypes];
    this.comparedPath = members.comparedWith?.join(".");
    this.marks = quoted([...anyDepth, ...objectsOnly, ...byPresence, ...types]);
    this.outputItemTypes = quoted(Object.keys(outputItems));
    this.watch = new Watch(
      [...anyDepth, ...objectsOnly, ...byPresence, ...(members.untypedElements ? ["id"] : [])],
      [...types, ...Object.keys(outputItems)],
    );
    const names = [...anyDepth, ...objectsOnly, ...byPresence];
    this.variantWatch = new Watch([...names.flatMap(caseSpellings), ...(members.untypedElements ? SPELLED_ID : [])]);
    const bare = members.untypedElements ? SPELLED_ID.map((name) => `|"${name}"`).join("") : "";
    this.variantPattern = new RegExp(`"(?:${names.map(anyCasePattern).join("|")})"${bare}`);
    // A letter that folds to an ASCII letter has up to three bytes.
    this.maxVariantLength = 3 * Math.max("ID".length, ...names.map(({ length }) => length)) + 2;
    this.exactNames = new Set(names);
    this.anyDepth = new Set(anyDepth.map(foldCase));
    this.notSearched = new Set(members.notSearched);
    this.referenceTypes = new Set([...named, ...Object.keys(outputItems)]);
    this.objectsOnly = new Set(objectsOnly.map(foldCase));
    this.byPresence = new Set(byPresence.map(foldCase));
    this.inlineContent = new Map(Object.entries(inlineContent));
    this.outputItems = new Map(Object.entries(outputItems));
    this.sharedSourceTypes = new Set(sharedSourceTypes);
    const { urlMembers = [], placePrefix = "" } = members;
    this.urlMembers = new Set(urlMembers.map(foldCase));
    this.urlWatch = urlMembers.length === 0 ? undefined : new Watch(urlMembers);
    this.urlStart = urlMembers.length === 0 ? undefined : new StringStartSearch(placePrefix.slice(0, 2));
    this.requestFiles = (members.requestFiles ?? []).map(({ members: names, inside }) =>
      [names, ...(inside ? [inside] : [])].map((each) => new Set(each.map(foldCase))),
    );
    this.recognized =
      members.recognized &&
      new RecognizedObjectFinder(
        members.recognized,
        (name) => this.notSearched.has(name),
        (name) => this.anyDepth.has(foldCase(name)),
      );
  }

  /**
   * Returns all objects that a body names. It is parsed only where it may name one below its top level.
   * @throws GatewayError `invalid_field` for an invalid id; `invalid_json` where two readers could read two ids
   */
  findInBody(body: Body): ObjectReference[] {
    const { scan } = body;
    if (!scan) return [];
    const { topLevel } = this.members;
    const found: ObjectReference[] = [];
    let whole = this.mayReferBelowTop(body);
    for (const name of topLevel) {
      const member = body.member(name);
      if (!member || whole) continue;
      if (member.kind === "string") this.collect(body.value(name), { step: name }, found);
      else whole = member.kind === "object" || member.kind === "array";
    }
    if (!whole) return found;
    const json = asObject(body.uniqueJson()) ?? {};
    const all: ObjectReference[] = [];
    for (const name of topLevel) this.collect(json[name], { step: name }, all);
    this.walk(json, undefined, all);
    return all;
  }

  /** Reports whether a body may name an object, without reading it twice. May report one that names none, never the reverse. */
  mayReferTo(scan: Scan, pieces: readonly Buffer[]): boolean {
    return (
      this.hasReferenceName(scan) ||
      this.variantWatch.mayMatch(scan) ||
      this.hasVariantAtTop(scan) ||
      this.recognized?.mayOccurIn(pieces) === true
    );
  }

  /**
   * Reports whether a body may name an object anywhere, for bodies whose top-level members are not normalized to one spelling.
   */
  mayReferInBody(body: Body): boolean {
    const { scan, pieces } = body;
    return (
      this.mayReferBelowTop(body) ||
      (scan !== undefined && this.hasVariantAtTop(scan)) ||
      this.recognized?.mayOccurIn(pieces) === true
    );
  }

  /** Reports whether JSON in UTF-8 may name an object, without parsing it. May report one that names none, never the reverse. */
  mayReferInBytes(bytes: Buffer): boolean {
    const pieces = [bytes];
    return (
      this.mayHoldReference(pieces) ||
      matchesAcross(pieces, this.variantPattern, this.maxVariantLength) ||
      this.urlStart?.mayOccurIn(pieces) === true ||
      this.recognized?.mayOccurIn(pieces) === true
    );
  }

  /** Reports whether a body may name an object below its top level, or in a top-level member that names one at any depth. */
  private mayReferBelowTop({ scan, pieces }: Body): boolean {
    if (scan === undefined) return false;
    const may = (this.hasReferenceName(scan) && this.mayHoldReference(pieces)) || this.mayHoldVariant(scan, pieces);
    if (may || this.urlStart === undefined) return may;
    return this.urlWatch?.mayMatch(scan) === true && this.urlStart.mayMatch(scan) && this.urlStart.mayOccurIn(pieces);
  }

  private hasVariantAtTop({ members }: Scan): boolean {
    return members.some(({ name }) => {
      if (this.exactNames.has(name)) return false;
      const word = foldCase(name);
      return this.anyDepth.has(word) || this.objectsOnly.has(word) || this.byPresence.has(word);
    });
  }

  /**
   * Reports whether a form field or a query parameter names an object by its path: `file_id`, `images[0][file_id]`, `a.fileUri`.
   */
  isReferenceField(field: string): boolean {
    const steps = foldCase(field).split(FIELD_SEPARATORS);
    return steps.some((step, i) => {
      const next = steps[i + 1] || "0";
      const direct = next === "id" || NUMBER.test(next);
      return direct && (this.anyDepth.has(step) || (next === "id" && this.objectsOnly.has(step)));
    });
  }

  /** Returns the objects that it names. @throws GatewayError `invalid_field` */
  findInField(field: string, value: string): ObjectReference[] {
    const found: ObjectReference[] = [];
    if (this.isReferenceField(field)) this.collect(value, { step: field }, found);
    else {
      const id = this.recognized?.idInField(field, value);
      if (id !== undefined) this.collectRecognized(id, { step: field }, found);
    }
    return found;
  }

  /** Returns the objects that a parsed value names. */
  findInJson(json: unknown): ObjectReference[] {
    const found: ObjectReference[] = [];
    this.walk(json, undefined, found);
    this.recognized?.find(json, (id, path) => this.collectRecognized(id, path, found));
    return found;
  }

  private hasReferenceName(scan: Scan): boolean {
    if (this.watch.mayMatch(scan)) return true;
    for (const { name } of scan.members) if (this.exactNames.has(name)) return true;
    return false;
  }

  private mayHoldVariant(scan: Scan, pieces: readonly Buffer[]): boolean {
    return this.variantWatch.mayMatch(scan) && matchesAcross(pieces, this.variantPattern, this.maxVariantLength);
  }

  private mayHoldReference(pieces: readonly Buffer[]): boolean {
    if (this.marks.occursIn(pieces) || (this.outputItemTypes.occursIn(pieces) && IDS.occursIn(pieces))) return true;
    if (this.members.untypedElements && mayHoldBareId(pieces)) return true;
    return (
      pieces.some(
        (piece) => ESCAPE_STARTS.some((start) => piece.includes(start)) || piece.subarray(-5).includes(0x5c),
      ) && matchesAcross(pieces, ESCAPED_LETTER, ESCAPE_LENGTH)
    );
  }

  private walk(value: unknown, path: PathNode, found: ObjectReference[]): void {
    if (typeof value !== "object" || value === null) return;
    if (Array.isArray(value)) {
      for (let i = 0; i < value.length; i++) {
        const each: unknown = value[i];
        if (typeof each !== "object") continue;
        const at = { above: path, step: i };
        const bare = this.members.untypedElements ? bareIds(each) : NO_VALUES;
        if (bare.length > 0) for (const id of bare) this.collect(id, { above: at, step: "id" }, found);
        else this.walk(each, at, found);
      }
      return;
    }
    const object = value as JsonObject;
    if (valuesOf(object, "type").some((type) => this.referenceTypes.has(type)))
      this.collectReference(object, path, found);
    for (const name in object) {
      const inner = object[name];
      if (inner === null || (typeof inner !== "object" && typeof inner !== "string")) continue;
      if (this.notSearched.has(name)) continue;
      const at = { above: path, step: name };
      const word = foldCase(name);
      if (this.anyDepth.has(word)) this.collect(inner, at, found);
      if (this.byPresence.has(word)) addReference(found, { id: name, param: paramOf(at), byPresence: true });
      if (this.objectsOnly.has(word))
        for (const each of Array.isArray(inner) ? inner : [inner]) if (asObject(each)) this.collect(each, at, found);
      if (this.urlMembers.has(word)) this.collectAddress(inner, at, found);
      if (word === SOURCE) this.collectSource(inner, at, found);
      if (typeof inner === "object") this.walk(inner, at, found);
    }
  }

  private collectReference(object: JsonObject, path: PathNode, found: ObjectReference[]): void {
    const [type, another] = valuesOf(object, "type");
    const item = another === undefined && type === object["type"] ? this.outputItems.get(type) : undefined;
    const at = { above: path, step: "id" };
    const ids = valuesOf(object, "id");
    if (item) {
      if (asText(object[item.sealed])) return;
      const mayBeInvented = item.beside.some((name) => asText(object[name]) || asList(object[name]).length > 0);
      const common = { param: paramOf(at), hasContent: true, ...(mayBeInvented && { mayBeInvented }) } as const;
      for (const id of ids)
        if (typeof id === "string" && id !== "") addReference(found, { id: id.slice(0, MAX_CLIENT_ID), ...common });
      return;
    }
    const from = found.length;
    for (const id of ids) this.collect(id, at, found);
    if (this.holdsContent(object)) markContent(found, from);
  }

  /**
   * Reports whether an object holds the content that its id stands for, or has failed and so has none. These members are matched
   * exactly, as all readers match them.
   */
  private holdsContent({ type, status, ...members }: JsonObject): boolean {
    const content = this.inlineContent.get(type);
    if (content === undefined) return false;
    return Boolean(asText(members[content])) || (status === "failed" && (members[content] ?? null) === null);
  }

  private collectAddress(value: unknown, path: PathNode, found: ObjectReference[]): void {
    const { placePrefix = "" } = this.members;
    const text = asText(value) ?? "";
    if (!text.slice(0, placePrefix.length).toLowerCase().startsWith(schemeOf(placePrefix))) return;
    const from = found.length;
    this.collect(text, path, found);
    markContent(found, from);
  }

  private collectSource(value: unknown, path: PathNode, found: ObjectReference[]): void {
    for (const type of valuesOf(asObject(value) ?? {}, "type"))
      if (this.sharedSourceTypes.has(type)) this.collect(type, { above: path, step: "type" }, found);
  }

  /** Collects ids from a value that is an id, a list of values with ids, or an object with an id or numbered members. */
  private collect(value: unknown, path: PathNode, found: ObjectReference[]): void {
    if (Array.isArray(value)) {
      for (let i = 0; i < value.length; i++) this.collect(value[i], { above: path, step: i }, found);
      return;
    }
    const object = asObject(value);
    if (object) {
      for (const id of valuesOf(object, "id"))
        if (typeof id === "string") this.collect(id, { above: path, step: "id" }, found);
      // Some readers take such an object for a list.
      for (const name in object) if (NUMBER.test(name)) this.collect(object[name], { above: path, step: name }, found);
      return;
    }
    const text = asText(value);
    const id =
      text === undefined || text === "" ? undefined : this.members.id ? this.members.id(text, path?.step) : text;
    if (id !== undefined) this.collectId(id, path, found);
  }

  private collectRecognized(id: string, path: PathNode, found: ObjectReference[]): void {
    if (!this.members.recognized?.mayBeInvented) this.collectId(id, path, found);
    else if (ID.test(id)) addReference(found, { id, param: paramOf(path), mayBeInvented: true });
  }

  private collectId(id: string, path: PathNode, found: ObjectReference[]): void {
    const param = paramOf(path);
    const { placePrefix } = this.members;
    if (!ID.test(placePrefix !== undefined && id.startsWith(placePrefix) ? id.slice(placePrefix.length) : id))
      throw new GatewayError("invalid_field", {
        message: `${param} is no id: 1 to 128 letters, digits, dots, dashes and underscores.`,
        param,
      });
    const isRun = this.isRequestFile(path) && ({ isRun: true } as const);
    addReference(found, { id, param, unknownIdError: this.members.unknownError?.(param), ...isRun });
  }

  private isRequestFile(path: PathNode): boolean {
    if (this.requestFiles.length === 0) return false;
    const names = this.requestFileNames(path);
    return names.size > 0 && this.requestFiles.some((sets) => sets.every((set) => !set.isDisjointFrom(names)));
  }

  /** Returns the names on a path that are in one of these sets. Cached, as thousands of objects may be below one long path. */
  private requestFileNames(path: PathNode): ReadonlySet<string> {
    if (!path) return NO_NAMES;
    const known = this.namesOnPaths.get(path);
    if (known) return known;
    const above = this.requestFileNames(path.above);
    const steps = typeof path.step === "string" ? foldCase(path.step).split(FIELD_SEPARATORS) : [];
    const own = steps.filter((name) => this.requestFiles.some((sets) => sets.some((set) => set.has(name))));
    const names = own.length === 0 ? above : new Set([...above, ...own]);
    this.namesOnPaths.set(path, names);
    return names;
  }
}

/** @throws GatewayError `invalid_field` for more objects than are looked up */
function addReference(found: ObjectReference[], object: ObjectReference): void {
  if (found.length >= MAX_REFERENCES)
    throw new GatewayError("invalid_field", {
      message: `The request names more than ${MAX_REFERENCES} objects.`,
      param: object.param,
    });
  found.push(object);
}

/** Marks references from an index on as objects whose content is sent beside the id. */
function markContent(found: ObjectReference[], from: number): void {
  for (let i = from; i < found.length; i++) found[i] = { ...(found[i] as ObjectReference), hasContent: true };
}

/** Returns the beginning of an address, up to its first slash. */
const schemeOf = (address: string): string => address.replace(/\/.*$/, "");

const NO_VALUES: readonly never[] = [];

/** Returns the values of a member in every spelling of its name. */
function valuesOf(object: JsonObject, member: string): readonly unknown[] {
  let found: unknown[] | undefined;
  for (const name in object)
    if (name.length === member.length && foldCase(name) === member) {
      found ??= [];
      found.push(object[name]);
    }
  return found ?? NO_VALUES;
}

/** Reports whether bytes may hold an object with only an id; also true where that is not certain. */
function mayHoldBareId(pieces: readonly Buffer[]): boolean {
  let before: Buffer = Buffer.alloc(0);
  return pieces.some((piece) => {
    if (before.length > 0 && Buffer.concat([before, piece.subarray(0, 3)]).includes(ID_NAME)) return true;
    before = (piece.length < 3 ? Buffer.concat([before, piece]) : piece).subarray(-3);
    for (let at = piece.indexOf(ID_NAME); at >= 0; at = piece.indexOf(ID_NAME, at)) {
      at += ID_NAME.length;
      const near = piece.toString("latin1", at, at + NEAR_BYTES);
      if (NOT_BARE_ID.test(near)) continue;
      if (BARE_ID.test(near) || !NOT_BARE_ID.test(piece.toString("latin1", at, at + FAR_BYTES))) return true;
    }
    return false;
  });
}

/** Returns the ids of an object whose only non-null member is `id`, in any spelling. */
function bareIds(value: unknown): readonly string[] {
  const object = asObject(value) ?? {};
  for (const name in object) if (object[name] !== null && name.toLowerCase() !== "id") return NO_VALUES;
  return valuesOf(object, "id").filter((id) => typeof id === "string");
}
