import { type BufferAccount, noRoomError } from "../core/buffer-memory.ts";
import { GatewayError } from "../core/errors.ts";
import type { Exchange } from "../core/exchange.ts";
import type { RequestFiles, ResumableUploads, VendorObjects } from "../core/object-members.ts";
import type { MaybePromise } from "../core/plugin.ts";
import type { Protocol } from "../core/protocol.ts";
import { letterVariants } from "../wire/any-case.ts";
import { asList, asObject, asText, type JsonObject } from "../wire/values.ts";
import { bodyReferenceFinder, requestLines } from "./body-reference-finder.ts";
import { EventMemberExtractor, MemberExtractor } from "./member-extractor.ts";
import type { ObjectAccess } from "./objects.ts";
import { looksLikeId, possibleIds } from "./possible-ids.ts";
import { type BodyReferenceFinder, type ObjectReference, ReferenceFinder } from "./reference-finder.ts";
import { isOfRequests } from "./request-file-finder.ts";
import { ownersOf } from "./share.ts";
import { PieceReader } from "./uploaded-pieces.ts";

const VERSION = /^v\d+(?:\.\d+)?(?:(?:alpha|beta|preview)\d*)?$/i;
/** Bytes of a member that contains an id of a derived object. */
const MAX_DERIVED_BYTES = 64 * 1024;
/** Segments of the longest collection. */
const MAX_COLLECTION_SEGMENTS = 3;

/** What a path relative to a provider's address refers to. */
interface ObjectPath {
  /** It belongs to a collection of objects that keys own. */
  readonly owned: boolean;
  /** The outermost object; undefined: the collection as a whole. */
  readonly id?: string;
  /** What follows an action on the collection. */
  readonly further?: readonly string[];
}

/**
 * Parses a vendor's path for the object it addresses; everything below an object belongs to it.
 * @param path the original path, without the query
 * @returns undefined for an unknown path
 */
export function objectPath(
  path: string,
  { collections, actions, public: publicParts }: VendorObjects,
): ObjectPath | undefined {
  const parts = pathSegments(path);
  const found = outermostCollection(parts, collections);
  if (!found) return parts.some((part) => publicParts.includes(part.toLowerCase())) ? { owned: false } : undefined;
  const [id, ...further] = found.below;
  if (id !== undefined && !actions.includes(id)) return { owned: true, id };
  return { owned: true, ...(further.length > 0 && { further }) };
}

/**
 * Returns the paths of members of a response that hold ids of objects derived from the requested one; none unless the response is
 * that object itself.
 */
function derivedMembers(path: string, { collections, derived }: VendorObjects): readonly string[] {
  const { collection = "", below: [id, ...further] = [] } = outermostCollection(pathSegments(path), collections) ?? {};
  const last = decodeURIComponent(path).split("/").at(-1);
  return id !== undefined && further.length === 0 && id === last ? (derived[collection] ?? []) : [];
}

/** Returns the outermost collection in a path, and the segments below it. */
function outermostCollection(
  parts: readonly string[],
  collections: readonly string[],
): { collection: string; below: readonly string[] } | undefined {
  const segments = parts.map((part) => part.toLowerCase());
  for (let i = 0; i < parts.length; i++)
    for (let length = MAX_COLLECTION_SEGMENTS; length > 0; length--) {
      const collection = segments.slice(i, i + length).join("/");
      if (collections.includes(collection)) return { collection, below: parts.slice(i + length) };
    }
  return undefined;
}

/** Returns the members of a path's responses that hold addresses. */
function addressMembers(path: string, { urlMembers = {} }: VendorObjects): string[] {
  const lowerCasePath = `/${pathSegments(path).join("/").toLowerCase()}/`;
  return Object.entries(urlMembers).flatMap(([collection, members]) =>
    lowerCasePath.includes(`/${collection}/`) ? [...members] : [],
  );
}

/** Returns the segments of a path without versions, matrix parameters and actions. */
const pathSegments = (path: string): string[] =>
  decodeURIComponent(path)
    .split("/")
    .map((part) => part.replace(/[;:].*$/s, "").trim())
    .filter((part) => part !== "" && !VERSION.test(part));

/** Separates keys' objects in pass-through requests: by their paths, and by ids in JSON bodies. */
export class PassThroughObjects {
  private readonly path: ObjectPath | undefined;
  /** It is a path on which requests concern the whole account. */
  private readonly account: boolean;
  private readonly finders: readonly ReferenceFinder[];
  /** Undefined: there is none to check, or its end has been checked. */
  private body: BodyReferenceFinder | undefined;
  /** Why the rest of the body is refused. */
  private preempted: GatewayError | undefined;
  /** Ends the request, once it has begun. */
  private fail: ((error: GatewayError) => void) | undefined;
  private length = 0;
  /** Bytes of the body that are kept. */
  private buffered = 0;
  /** The response may report objects that the request creates. */
  private readonly creates: boolean;
  /** Where the response reports ids: the steps to each member. */
  private readonly idPaths: readonly (readonly string[])[];
  private members: MemberExtractor | EventMemberExtractor | undefined;
  /** Reads the purpose of an upload in parts, where its file may contain requests. */
  private readonly purpose: UploadPurpose | undefined;
  /** The vendor's uploads in several requests. */
  private readonly uploads: readonly ResumableUploads[];
  /** The query parameter that names an upload which the request continues. */
  private readonly session: string | undefined;
  /** Reads the piece of a file that such a request has. */
  private readonly piece: PieceReader | undefined;
  /** Members of the response that hold addresses at the vendor. */
  readonly addresses: readonly string[];

  /**
   * @param provider that the request goes to
   * @param limit bytes of a JSON body at most
   * @param memory counts what is kept of the body
   * @param open the path also accepts requests that may show other keys' objects: lists, and bodies that cannot be read
   */
  constructor(
    private readonly objects: ObjectAccess,
    private readonly exchange: Exchange,
    private readonly provider: string,
    private readonly below: string,
    protocols: readonly Protocol[],
    limit: number,
    private readonly memory: BufferAccount | undefined,
    private readonly open: boolean,
  ) {
    const vendors = [...new Set(protocols.flatMap(({ vendorObjects }) => vendorObjects ?? []))];
    const paths = vendors.flatMap((vendor) => objectPath(below, vendor) ?? []);
    this.path = paths.find(({ owned }) => owned) ?? paths[0];
    this.account = vendors.some(({ account }) =>
      pathSegments(below).some((part) => account.includes(part.toLowerCase())),
    );
    this.finders = vendors.map(({ bodyMembers }) => objects.finderFor(bodyMembers));
    const derived = vendors.flatMap((vendor) => derivedMembers(below, vendor));
    this.addresses = vendors.flatMap((vendor) => addressMembers(below, vendor));
    // A request below a model may create something too: the operation whose result is fetched later.
    this.creates = /^P(?:OST|UT)$/.test(exchange.method) && this.path !== undefined;
    const created = this.creates ? vendors.flatMap(({ bodyMembers }) => bodyMembers.createdIdMembers) : [];
    this.idPaths = [...new Set([...created, ...derived])].map((path) => path.split("."));
    this.uploads = vendors.flatMap(({ resumableUploads }) => resumableUploads ?? []);
    const upload = this.uploads.find(({ pathPrefix }) => below.startsWith(`${pathPrefix}/`));
    this.session = upload && exchange.query.has(upload.sessionParameter) ? upload.sessionParameter : undefined;
    if (!this.isChecked) return;
    // The body of an upload's piece is a file, for which SDKs send a JSON content type. Any other body may name objects.
    const allowed =
      this.session !== undefined ? "piece" : open || upload ? "any" : this.uploads.length === 0 ? "file" : "json";
    const type = exchange.headers.get("content-type")?.trim() ?? "";
    const [requestFiles] = vendors.flatMap((vendor) => vendor.requestFiles ?? []);
    this.body = bodyReferenceFinder(type, this.finders, limit, allowed, requestFiles, (bytes) => {
      this.buffered = bytes;
    });
    if (upload && this.session !== undefined) this.piece = this.pieceReader(upload, limit);
    if (requestFiles && !open && isUploadInParts(below, requestFiles))
      this.purpose = new UploadPurpose(requestFiles, type);
    const coding = exchange.headers.get("content-encoding");
    if (coding !== undefined && coding !== "identity" && allowed !== "piece")
      throw new GatewayError("unsupported_encoding", { hint: "Send bodies without content-encoding on this path." });
  }

  private pieceReader(upload: ResumableUploads, limit: number): PieceReader {
    const { objects, exchange, provider, finders } = this;
    const id = exchange.query.get(upload.sessionParameter) ?? "";
    return new PieceReader(
      objects.unfinishedUploads,
      { provider, key: exchange.caller?.id ?? "", id },
      upload.piece(exchange.headers),
      () => requestLines("file", finders, limit),
      (named) => objects.admitAtProvider(provider, named, exchange.caller),
    );
  }

  private get isChecked(): boolean {
    return this.objects.share !== "all" && this.finders.length > 0;
  }

  /**
   * Checks the ids in path and query.
   * @throws GatewayError `object_not_found`, `key_not_allowed`
   */
  admit(): MaybePromise<void> {
    const { path, objects, provider, exchange } = this;
    const lookUp = () => (path?.id === undefined ? undefined : objects.findCredential(path.id, provider));
    const address = this.isChecked ? this.admitAddress() : lookUp();
    const admitted = both(address, () => {
      exchange.objectCredential = path?.id === undefined ? undefined : objects.credentialOf(path.id, provider);
    });
    // Objects of one owner may name each other in bodies, which arrive later.
    exchange.conversation = path?.owned ? ownersOf(objects.share, exchange.caller)[0] : undefined;
    const id = exchange.method === "DELETE" && this.uploads.length > 0 ? path?.id : undefined;
    if (id === undefined) return admitted;
    const endMark = () => objects.requestFiles.end(id, provider, exchange);
    return admitted ? admitted.then(endMark) : endMark();
  }

  private admitAddress(): MaybePromise<void> {
    const { path, exchange, session, open } = this;
    if (session !== undefined && exchange.uploader !== (exchange.caller?.id ?? ""))
      throw new GatewayError("object_not_found", { param: session });
    const named = exchange.query
      .entries()
      .flatMap(([name, value]) => [
        ...this.finders.flatMap((finder) => finder.findInField(name, value)),
        ...(open ? [] : possibleIds(name, value)),
      ]);
    if (path?.id !== undefined) named.push({ id: path.id, param: undefined });
    else if (!open) named.push(...this.referencesInUnknownPath());
    return this.admitReferences(named);
  }

  /**
   * Returns possible objects on a path of unknown meaning.
   * @throws GatewayError `key_not_allowed` for a request that names none, and may show any
   */
  private referencesInUnknownPath(): ObjectReference[] {
    const { path, account, exchange, below } = this;
    const creates = !account && (exchange.method === "POST" || (exchange.method === "PUT" && path?.owned));
    const reads = /^(?:GET|HEAD|OPTIONS)$/.test(exchange.method);
    const unknown = path ? (path.further ?? []) : pathSegments(below);
    if (creates) return unknown.flatMap((id) => (looksLikeId(id) ? { id, param: undefined } : []));
    if (path?.owned === false && reads) return [];
    throw new GatewayError("key_not_allowed", {
      message: "This request could show or change what other keys made.",
      hint: "Name an object by its id; or let the operator set open: true on the path, or share: all.",
    });
  }

  /**
   * Checks a piece of the request's body before it is forwarded.
   * @throws GatewayError as `admit`; the provider does not have the whole body then
   */
  onRequestData(bytes: Buffer): MaybePromise<void> {
    if (this.preempted) throw this.preempted;
    if (!this.body) return;
    this.purpose?.check(bytes);
    const named = [...this.body.push(bytes)];
    const exceeded = this.memory?.set(this.buffered);
    if (exceeded !== undefined) throw noRoomError(exceeded);
    this.length += bytes.length;
    // The provider acts on the last announced byte, or on the end where no length was announced.
    const isWhole = this.length >= Number(this.exchange.headers.get("content-length") ?? Infinity);
    if (isWhole) named.push(...this.lastFound());
    const admitted = this.admitReferences(named);
    const read = both(this.piece?.push(bytes), () => (isWhole ? this.piece?.end() : undefined));
    return both(admitted, () => read);
  }

  /** Checks the rest when the whole body has arrived, before its end is forwarded. @throws GatewayError as `onRequestData` */
  onRequestEnd(): MaybePromise<void> {
    return both(this.admitReferences(this.lastFound()), () => this.piece?.end());
  }

  /** Called when the request goes to the provider. @param fail ends it, also where its next byte never comes */
  onStart(fail: (error: GatewayError) => void): void {
    this.fail = fail;
  }

  /** Refuses the rest of the body, and releases what is kept of it: the connection and the provider's slot become free. */
  preempt(error: GatewayError): void {
    this.preempted = error;
    this.body = undefined;
    this.fail?.(error);
  }

  /** Returns the objects that are known once the whole body has arrived, once. */
  private lastFound(): readonly ObjectReference[] {
    if (this.preempted) throw this.preempted;
    const found = this.body?.end() ?? [];
    this.body = undefined;
    this.memory?.close();
    return found;
  }

  private admitReferences(named: readonly ObjectReference[]): MaybePromise<void> {
    const { objects, provider, exchange, open } = this;
    if (named.length === 0) return;
    const admitted = objects.admitAtProvider(provider, named, exchange.caller);
    const run = open ? [] : named.filter(({ isRun }) => isRun);
    return run.length === 0 ? admitted : both(admitted, () => objects.admitRun(provider, run, exchange));
  }

  /** Called when a successful response begins. @param stream whether it is an event stream; otherwise JSON */
  onResponseHead(stream: boolean): void {
    const names = [...new Set(this.idPaths.map(([name]) => name as string))];
    if (names.length === 0) return;
    // What holds a derived id is small; what an object contains besides may be large.
    const limit = this.creates ? undefined : MAX_DERIVED_BYTES;
    this.members = stream ? new EventMemberExtractor(names) : new MemberExtractor(names, limit);
  }

  /** Reads a piece of such a response before it is forwarded. */
  onResponseData(bytes: Buffer): void {
    const found = this.members?.push(bytes);
    if (!found) return;
    const { objects, exchange, provider, piece, uploads } = this;
    const [attempt] = exchange.attempts;
    if (attempt) objects.recordCreated(idsIn(found, this.idPaths), exchange.caller, attempt);
    const file = piece && uploads.flatMap((upload) => upload.uploadedFile(found) ?? [])[0];
    if (file && piece.hasRead(file.sha256)) objects.requestFiles.add(file.id, provider, file.expires, exchange);
  }
}

/** Does one thing and then another, at once where nothing has to be waited for. */
const both = (first: MaybePromise<void>, then: () => MaybePromise<void>): MaybePromise<void> =>
  first instanceof Promise ? first.then(then) : then();

const isUploadInParts = (below: string, { uploads }: RequestFiles): boolean =>
  outermostCollection(pathSegments(below), [uploads])?.below.length === 0;

/** Refuses uploads in parts of files that contain requests: a line may be in two parts, which are checked apart. */
class UploadPurpose {
  private readonly member: MemberExtractor;

  /** @throws GatewayError `unsupported_media_type` for a form: vendors take JSON here */
  constructor(
    private readonly files: RequestFiles,
    type: string,
  ) {
    if (/^multipart\//i.test(type))
      throw new GatewayError("unsupported_media_type", { hint: "Send JSON with content-type: application/json." });
    // Some servers match names in any case.
    const add = (starts: string[], letter: string) =>
      starts.flatMap((start) => letterVariants(letter).map((each) => start + each));
    this.member = new MemberExtractor([...files.purposeField].reduce(add, [""]));
  }

  /** @throws GatewayError `key_not_allowed` */
  check(bytes: Buffer): void {
    const purposes = Object.values(this.member.push(bytes) ?? {});
    if (purposes.some((purpose) => isOfRequests(JSON.stringify(purpose) ?? "", this.files)))
      throw new GatewayError("key_not_allowed", {
        message: "The lines of a file that is uploaded in parts cannot be checked for objects of other keys.",
        hint: "Upload the file in one request; or let the operator set open: true on the path, or share: all.",
      });
  }
}

/**
 * Yields the ids in members of a response: strings, lists of them, and objects with a name or an id. Of a name with slashes the
 * last part is the id.
 */
function* idsIn(members: JsonObject, paths: readonly (readonly string[])[]): Generator<string> {
  for (const path of paths) {
    const value = path.reduce<unknown>((at, name) => asObject(at)?.[name], members);
    for (const each of Array.isArray(value) ? asList(value) : [value]) {
      const { name, id } = asObject(each) ?? {};
      const text = asText(each) ?? asText(name) ?? asText(id);
      if (text) yield text.slice(text.lastIndexOf("/") + 1);
    }
  }
}
