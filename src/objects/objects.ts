import type { Attempt } from "../core/attempt.ts";
import type { Body } from "../core/body.ts";
import type { Caller } from "../core/caller.ts";
import { GatewayError } from "../core/errors.ts";
import type { Exchange } from "../core/exchange.ts";
import type { Head } from "../core/head.ts";
import { Marketplace, type Provider, type Target } from "../core/marketplace.ts";
import type { ObjectMembers } from "../core/object-members.ts";
import type { MaybePromise } from "../core/plugin.ts";
import type { Protocol } from "../core/protocol.ts";
import type { Stage } from "../core/stage.ts";
import type { OwnedObject, Owners } from "../store/owners.ts";
import { asObject, type JsonObject } from "../wire/values.ts";
import type { IssuedIds } from "./issued.ts";
import { MemberExtractor } from "./member-extractor.ts";
import { possibleIds } from "./possible-ids.ts";
import { type ObjectReference, type ReferenceFinder, referenceFinder } from "./reference-finder.ts";
import { RequestFileMarks } from "./request-file-marks.ts";
import { ownersOf, type Share } from "./share.ts";
import { UnfinishedUploads } from "./uploaded-pieces.ts";

/** Remembers which of a provider's several credentials has made an object: another one may be another account's. */
interface ObjectCredentials {
  credentialOf(object: string): string | undefined;
  recordCredential(object: string, credential: string): void;
}

/**
 * Separates the objects of gateway keys: a request may name only objects of its own key or shared with it, and objects that a
 * response reports as created are recorded for the key.
 */
export class ObjectAccess {
  private readonly finders = new Map<ObjectMembers, ReferenceFinder>();
  /** Ids that every caller may name, with their providers. */
  private readonly shared = new Map<string, readonly string[]>();
  /** Names of providers with several credentials. */
  private readonly withSeveral = new Set<string>();
  readonly requestFiles: RequestFileMarks;
  readonly unfinishedUploads = new UnfinishedUploads();

  constructor(
    private readonly owners: Owners,
    readonly share: Share,
    providers: Iterable<Provider>,
    private readonly issued: IssuedIds,
    protocols: Iterable<Protocol>,
    private readonly credentials?: ObjectCredentials,
  ) {
    this.requestFiles = new RequestFileMarks(owners, (object, caller) => this.mayUse(object, caller));
    // All at once: a body is scanned for the words that are known when it arrives.
    for (const { objects, vendorObjects } of protocols)
      for (const members of [objects, vendorObjects?.bodyMembers])
        if (members) this.finders.set(members, referenceFinder(members));
    for (const { name, credentials, shared = [] } of providers) {
      if (credentials.length > 1) this.withSeveral.add(name);
      for (const id of shared) this.shared.set(id, [...(this.shared.get(id) ?? []), name]);
    }
  }

  /**
   * Admits a request that names only objects its caller may use, and limits its targets to the providers that store them.
   * @throws GatewayError `object_not_found`, with the same message whether another key owns the object or nobody does
   */
  admit(exchange: Exchange): MaybePromise<void> {
    const { objects } = exchange.protocol;
    const { storedResponseId } = exchange.operation;
    const finder = objects && this.finderFor(objects);
    const all =
      storedResponseId === undefined
        ? finder?.findInBody(exchange.body)
        : [
            { id: storedResponseId, param: undefined },
            ...exchange.query.entries().flatMap(([name, value]) => possibleIds(name, value)),
          ];
    return !all || all.length === 0 ? undefined : this.admitNamed(exchange, all, finder);
  }

  private admitNamed(
    exchange: Exchange,
    all: readonly ObjectReference[],
    finder: ReferenceFinder | undefined,
  ): MaybePromise<void> {
    // Ids that the gateway issued are stored at no provider: the decoder of the request decides about them.
    const owners = ownersOf(this.share, exchange.caller);
    const native = exchange.targets.some((target) => Marketplace.isNative(target, exchange.protocol.name));
    const compared = (param: string | undefined) => param !== undefined && param === finder?.comparedPath;
    const named = all.filter(
      ({ id, param, hasContent }) => !compared(param) && (native || !hasContent) && !this.issued.isIssuedTo(id, owners),
    );
    const absent = native ? notFound : notStored;
    const admitted =
      named.length > 0
        ? this.places(named, exchange.caller, (found) => this.chooseTargets(exchange, found), absent)
        : undefined;
    if (!native || finder?.comparedPath === undefined) return admitted;
    const comparisons = all.filter(({ param }) => compared(param));
    if (comparisons.length === 0) return admitted;
    // The targets that are left decide.
    const check = () => this.admitComparisons(exchange, comparisons);
    return admitted ? admitted.then(check) : check();
  }

  /** Limits the targets to the providers that store the objects, and prefers the credential that made one of them. */
  private chooseTargets(exchange: Exchange, found: readonly LocatedObject[]): void {
    limitTargets(exchange, found);
    for (const { provider } of exchange.targets)
      for (const { object } of found) exchange.objectCredential ??= this.credentialOf(object.id, provider.name);
  }

  /** Returns the id of the credential that made an object; undefined: unknown, or its provider has one. */
  credentialOf(id: string, provider: string): string | undefined {
    return this.credentials?.credentialOf(`${provider} ${id}`);
  }

  /** Leaves out what is only compared with, unless it is the caller's to name at every target's provider. */
  private admitComparisons(exchange: Exchange, comparisons: readonly ObjectReference[]): MaybePromise<void> {
    const decide = (found: readonly (readonly OwnedObject[])[]) => {
      const isKnown = (rows: readonly OwnedObject[]) =>
        exchange.targets.every(({ provider }) =>
          rows.some((row) => row.provider === provider.name && this.mayUse(row, exchange.caller)),
        );
      const unknown = comparisons.find((_, i) => !isKnown(found[i] ?? []));
      if (unknown && exchange.strict) throw notFound(unknown);
      if (unknown) removeComparison(exchange);
    };
    const found = comparisons.map(({ id }) => this.owners.find(id));
    const waits = found.some((rows) => rows instanceof Promise);
    return waits ? Promise.all(found).then(decide) : decide(found as (readonly OwnedObject[])[]);
  }

  /**
   * Admits an attempt whose translated request names only objects that its caller may use there: an ordinary address in the
   * client's protocol may be an object's address in the provider's.
   * @throws GatewayError `object_not_found` at the client's own field
   */
  admitTranslated(exchange: Pick<Exchange, "caller" | "body">, attempt: Attempt): MaybePromise<void> {
    const { operation, protocol } = attempt;
    // An untranslated request has been checked already.
    if (!operation || !protocol.objects || this.share === "all") return;
    return this.checkTranslated(exchange, attempt, protocol.objects);
  }

  private checkTranslated(
    { caller, body: original }: Pick<Exchange, "caller" | "body">,
    { target, body }: Attempt,
    objects: ObjectMembers,
  ): MaybePromise<void> {
    const mapError = (thrown: unknown) => atClientField(thrown, body, original);
    try {
      const owners = ownersOf(this.share, caller);
      const named = this.finderFor(objects)
        .findInBody(body)
        .filter(({ id }) => !this.issued.isIssuedTo(id, owners));
      const admission = named.length === 0 ? undefined : this.admitAtProvider(target.provider.name, named, caller);
      if (!(admission instanceof Promise)) return;
      return admission.catch((thrown) => {
        throw mapError(thrown);
      });
    } catch (thrown) {
      throw mapError(thrown);
    }
  }

  /**
   * Admits a request that names only objects its caller may use at one provider.
   * @throws GatewayError `object_not_found`
   */
  admitAtProvider(provider: string, named: readonly ObjectReference[], caller: Caller | undefined): MaybePromise<void> {
    return this.places(named, caller, (found) => {
      for (const { object, providers } of found) if (providers && !providers.has(provider)) throw notFound(object);
    });
  }

  /**
   * Admits a request that has the vendor run the lines of files as requests, where the caller may use the files themselves.
   * @throws GatewayError `object_not_found` for a file whose lines have not been checked
   */
  async admitRun(provider: string, files: readonly ObjectReference[], exchange: Pick<Exchange, "caller" | "time">) {
    for (const { id, param } of mergeReferences(files))
      if (!this.shared.get(id)?.includes(provider) && !(await this.requestFiles.has(id, provider, exchange)))
        throw new GatewayError("object_not_found", {
          message: `${param}: The lines of this file have not been checked for objects of other keys, or are no longer known to be the same.`,
          hint: "Upload it anew through this gateway, with one JSON object in each line and objects of this key only; or send the requests inside this one; or let the operator set open: true on the path.",
          param,
        });
  }

  /**
   * Admits synchronously, for messages of a WebSocket, which cannot be held back.
   * @throws GatewayError as `admitAtProvider`, and `store_unavailable` where only the store has the answer
   */
  admitSync(provider: string, named: readonly ObjectReference[], caller: Caller | undefined): void {
    const admission = named.length === 0 ? undefined : this.admitAtProvider(provider, named, caller);
    if (!admission) return;
    // Its result is no longer of use, and an unhandled rejection would end the process.
    admission.catch(() => {});
    throw new GatewayError("store_unavailable", {
      message: "The gateway must ask its store whether this key may name that object, and cannot wait for it here.",
    });
  }

  /** Returns the finder of objects in a protocol. */
  finderFor(members: ObjectMembers): ReferenceFinder {
    return this.finders.get(members) as ReferenceFinder;
  }

  /**
   * Returns a stage that records what a provider's response reports as created, from its original bytes; undefined: it reports
   * nothing.
   */
  recordingStage(exchange: Exchange, head: Head): Stage | undefined {
    const { protocol, operation, body, attempt } = exchange;
    const { objects } = protocol;
    // The ids in a translated response are unknown to every provider.
    if (!objects || !attempt || attempt.protocol !== protocol || attempt.operation) return undefined;
    if (head.status >= 300 || !operation.generates || !objects.createsObjects?.(body)) return undefined;
    return this.createRecordingStage(exchange, attempt, objects, head);
  }

  private createRecordingStage(
    { body, model, caller }: Exchange,
    attempt: Attempt,
    objects: ObjectMembers,
    head: Head,
  ): Stage {
    let recorded = 0;
    const recordFrom = (json: unknown) => {
      if (recorded >= MAX_CREATED) return;
      recorded += this.recordCreated(objects.createdIds(asObject(json) ?? {}, body), caller, attempt, model?.id);
    };
    if (head.framing)
      return (frame) => {
        if (frame.kind !== "end" && objects.mayHoldIds(frame)) recordFrom(frame.json());
      };
    const members = new MemberExtractor(objects.createdIdMembers);
    return (frame) => {
      const found = frame.kind === "piece" ? members.push(frame.bytes) : undefined;
      if (found) recordFrom(found);
    };
  }

  /** Records objects that a caller has created, and returns their number; callers without a key own nothing. */
  recordCreated(
    ids: Iterable<string>,
    caller: Caller | undefined,
    { target, credential }: Pick<Attempt, "target" | "credential">,
    model?: string,
  ): number {
    if (!caller) return 0;
    const { name: provider, credentials } = target.provider;
    const { id: key, group } = caller;
    const maker = credentials.length > 1 ? credential?.id : undefined;
    const own = {
      ...{ provider, key, ...(group === undefined ? {} : { group }), ...(model === undefined ? {} : { model }) },
      ...(maker !== undefined && { credential: maker }),
    };
    const made: OwnedObject[] = [];
    for (const id of ids) {
      if (made.length === MAX_CREATED) break;
      if (id.length <= MAX_ID) made.push({ id, ...own });
    }
    if (made.length > 0) this.owners.add(made);
    this.rememberCredentials(made);
    return made.length;
  }

  /** Remembers the credentials of objects that were made now, or looked up in the store after a restart. */
  private rememberCredentials(objects: readonly OwnedObject[]): void {
    for (const { id, provider, credential } of objects)
      if (credential !== undefined && this.credentialOf(id, provider) === undefined)
        this.credentials?.recordCredential(`${provider} ${id}`, credential);
  }

  /** Looks up who made an object for its credential alone, which is only preferred: without the store any is taken. */
  findCredential(id: string, provider: string): MaybePromise<void> {
    if (!this.withSeveral.has(provider) || this.credentialOf(id, provider) !== undefined) return;
    const remember = (rows: readonly OwnedObject[]) => this.rememberCredentials(rows);
    try {
      const found = this.owners.find(id);
      return found instanceof Promise ? found.then(remember).catch(() => {}) : remember(found);
    } catch {
      return;
    }
  }

  /** Returns the stored answer with an id, if the caller may use it. */
  findStoredResponse(id: string, caller: Caller | undefined): MaybePromise<OwnedObject | undefined> {
    const allowed = (rows: readonly OwnedObject[]) => rows.find((row) => row.model && this.mayUse(row, caller));
    const found = this.owners.findSoon(id, (rows) => allowed(rows) !== undefined);
    return found instanceof Promise ? found.then(allowed) : allowed(found);
  }

  /**
   * Passes on the providers of each named object; undefined for an object that only its provider knows.
   * @throws GatewayError `invalid_field` for too many objects
   */
  private places(
    named: readonly ObjectReference[],
    caller: Caller | undefined,
    then: (found: readonly LocatedObject[]) => void,
    absent = notFound,
  ): MaybePromise<void> {
    const objects = mergeReferences(named);
    const excess = objects[MAX_OBJECTS];
    if (excess) throw tooManyObjects(excess);
    // Before an unknown id is refused, the store is asked: another gateway may just have recorded it.
    const refuses = (id: string) => this.share !== "all" && !this.shared.has(id);
    const suffices = (rows: readonly OwnedObject[]) => rows.some((row) => this.mayUse(row, caller));
    const lookUp = ({ id, mayBeInvented }: ObjectReference) =>
      !mayBeInvented && refuses(id) ? this.owners.findSoon(id, suffices) : this.owners.find(id);
    const locateObject = (object: ObjectReference, rows: readonly OwnedObject[]): LocatedObject => {
      const providers = this.providersOf(object, rows, caller, absent);
      this.rememberCredentials(rows);
      return { object, providers };
    };
    const found: LocatedObject[] = [];
    for (const [i, object] of objects.entries()) {
      const rows = lookUp(object);
      if (rows instanceof Promise) {
        // In parallel, because each lookup is a round trip to a server.
        const lookups = [rows, ...objects.slice(i + 1).map(lookUp)];
        return Promise.all(lookups).then((all) => {
          then([...found, ...all.map((rows, at) => locateObject(objects[i + at] as ObjectReference, rows))]);
        });
      }
      // The first object that may not be named ends the lookups.
      found.push(locateObject(object, rows));
    }
    then(found);
  }

  private providersOf(
    object: ObjectReference,
    rows: readonly OwnedObject[],
    caller: Caller | undefined,
    absent: typeof notFound,
  ): ReadonlySet<string> | undefined {
    const allowed = rows.filter((row) => this.mayUse(row, caller)).map(({ provider }) => provider);
    const allowedProviders = new Set([...allowed, ...(this.shared.get(object.id) ?? [])]);
    // Unknown, or the caller's to use: the content is sent beside the id, so every provider can process it.
    if (object.mayBeInvented && (rows.length === 0 || allowedProviders.size > 0)) return undefined;
    if (allowedProviders.size > 0) return allowedProviders;
    if (this.share === "all") return undefined;
    throw absent(object);
  }

  private mayUse({ key, group }: OwnedObject, caller: Caller | undefined): boolean {
    if (this.share === "all") return true;
    if (!caller) return false;
    return key === caller.id || (this.share === "group" && group !== undefined && group === caller.group);
  }
}

/** Returns each object once, in its strictest mention. */
function mergeReferences(named: readonly ObjectReference[]): ObjectReference[] {
  const objects = new Map<string, ObjectReference>();
  for (const object of named) {
    const before = objects.get(object.id);
    if (!before || before.mayBeInvented || (before.hasContent && !object.hasContent)) objects.set(object.id, object);
  }
  return [...objects.values()];
}

/** Characters of an id that is recorded: no request can name a longer one. */
const MAX_ID = 256;
/** Ids recorded of one response: a stream reports each several times, and each is written to the store. */
const MAX_CREATED = 5000;
/** Limit of distinct objects in a request; vendors accept a few hundred files at most. */
const MAX_OBJECTS = 1000;

/** A named object, and the providers that store it; undefined: only its provider knows. */
interface LocatedObject {
  readonly object: ObjectReference;
  readonly providers: ReadonlySet<string> | undefined;
}

const tooManyObjects = ({ param }: ObjectReference): GatewayError =>
  new GatewayError("invalid_field", {
    message: `The request names more than ${MAX_OBJECTS} objects.`,
    hint: "Ask with fewer at a time.",
    param,
  });

/** Removes the member that names an answer to compare with, and reports it as dropped. */
function removeComparison(exchange: Exchange): void {
  const [name = "", inner = ""] = exchange.protocol.objects?.comparedWith ?? [];
  const member = exchange.body.member(name);
  if (!member) return;
  const { [inner]: _, ...rest } = asObject(exchange.body.value(name)) ?? {};
  exchange.edit([{ start: member.start, end: member.end, bytes: Buffer.from(JSON.stringify(rest)) }]);
  exchange.dropped.push(`${name}.${inner}`);
}

const UNAVAILABLE = "it names an object at a provider that cannot serve this request now";

/** Limits the targets to the providers that store the objects: an object exists at its provider only. */
function limitTargets(exchange: Exchange, found: readonly LocatedObject[]): void {
  for (const { object, providers } of found) {
    if (!providers) continue;
    const { id, param, unknownIdError, hasContent } = object;
    const reads = (target: Target) => !hasContent || Marketplace.isNative(target, exchange.protocol.name);
    const targets = exchange.targets.filter((target) => providers.has(target.provider.name) || !reads(target));
    if (unknownIdError && targets.length < exchange.targets.length)
      exchange.objectError ??= new GatewayError("object_not_found", {
        ...unknownIdError,
        message: `${param}: ${UNAVAILABLE}.`,
      });
    if (targets.length === 0 && exchange.objectError) throw exchange.objectError;
    if (targets.length === 0 && object.byPresence) throw notFound(object);
    if (targets.length === 0)
      throw new GatewayError("invalid_field", {
        message: `"${id}" is kept by a provider that does not serve this model, or not together with the others.`,
        hint: "Name the model it was made for.",
        param,
      });
    exchange.targets = targets;
  }
}

const notFound = ({ id, param, byPresence, unknownIdError }: ObjectReference): GatewayError =>
  new GatewayError("object_not_found", {
    param,
    ...(byPresence && {
      message: `${param}: ${id} acts for the operator's account at the provider, and is not allowed here.`,
      hint: `Leave it out; the operator can allow it with \`shared: [${id}]\` of the provider in gateway.yaml.`,
    }),
    ...unknownIdError,
  });

/** Moves the error about a translated body to the client's field from which the text came. */
function atClientField(thrown: unknown, sent: Body, clientBody: Body): unknown {
  if (!(thrown instanceof GatewayError) || thrown.param === undefined) return thrown;
  const text = thrown.param.split(".").reduce<unknown>((value, name) => (value as JsonObject)?.[name], sent.json());
  const path = typeof text === "string" ? pathOf(text, clientBody.json()) : undefined;
  const param = path?.join(".");
  return new GatewayError("object_not_found", {
    message: `${param === undefined ? "" : `${param}: `}The object at this address is stored at the model's provider and does not belong to this key.`,
    hint: "Send the bytes themselves, or an address that anybody can read.",
    cause: thrown,
    param,
  });
}

/** Returns the path of a text in a value. */
function pathOf(text: string, value: unknown): string[] | undefined {
  if (value === text) return [];
  if (typeof value !== "object" || value === null) return undefined;
  for (const [name, inner] of Object.entries(value)) {
    const below = pathOf(text, inner);
    if (below) return [name, ...below];
  }
  return undefined;
}

/** Where no provider of the model uses the client's protocol, the id can be no stored object, whatever key sends it. */
const notStored = ({ param, unknownIdError }: ObjectReference): GatewayError =>
  new GatewayError("object_not_found", {
    param,
    message: `${param === undefined ? "" : `${param}: `}No provider of this model stores the object named here.`,
    hint: "Send its content instead, or name a model whose provider speaks the protocol of this path.",
    ...unknownIdError,
  });
