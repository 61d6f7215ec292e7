import type { Body } from "../core/body.ts";
import { GatewayError } from "../core/errors.ts";
import type { Attempt, Exchange, Head } from "../core/exchange.ts";
import type { Caller, Provider, Target } from "../core/marketplace.ts";
import type { ObjectWords, Protocol } from "../core/protocol.ts";
import type { Stage } from "../core/stage.ts";
import type { OwnedObject, Owners } from "../store/owners.ts";
import { asObject, type JsonObject } from "../wire/values.ts";
import type { IssuedIds } from "./issued.ts";
import { PassingMembers } from "./made.ts";
import { type NamedObject, type NamedObjects, namedObjects } from "./named.ts";
import { ownersOf, type Share } from "./share.ts";

/**
 * Separates the objects of gateway keys: a request may name only objects of its own key or shared with it, and objects that a
 * response reports as created are recorded for the key.
 */
export class Objects {
  private readonly naming = new Map<ObjectWords, NamedObjects>();
  /** Ids that every caller may name, with their providers. */
  private readonly shared = new Map<string, readonly string[]>();

  constructor(
    private readonly owners: Owners,
    readonly share: Share,
    providers: Iterable<Provider>,
    private readonly issued: IssuedIds,
    protocols: Iterable<Protocol>,
  ) {
    // All at once: a body is scanned for the words that are known when it arrives.
    for (const { objects, vendor } of protocols)
      for (const words of [objects, vendor?.words]) if (words) this.naming.set(words, namedObjects(words));
    for (const { name, shared = [] } of providers)
      for (const id of shared) this.shared.set(id, [...(this.shared.get(id) ?? []), name]);
  }

  /**
   * Admits a request that names only objects its caller may use, and limits its targets to the providers that store them.
   * @throws GatewayError `object_not_found`, with the same message whether another key owns the object or nobody does
   */
  admit(exchange: Exchange): void | Promise<void> {
    const { objects } = exchange.protocol;
    const { kept } = exchange.operation;
    const all =
      kept === undefined ? objects && this.namedIn(objects).of(exchange.body) : [{ id: kept, param: undefined }];
    if (!all || all.length === 0) return;
    // Ids that the gateway issued are stored at no provider: the decoder of the request decides about them.
    const owners = ownersOf(this.share, exchange.caller);
    const native = exchange.targets.some((target) => speaks(target, exchange.protocol.name));
    const named = all.filter(({ id, whole }) => (native || !whole) && !this.issued.isOf(id, owners));
    if (named.length === 0) return;
    const absent = native ? notFound : notKept;
    return this.places(named, exchange.caller, (found) => keep(exchange, found), absent);
  }

  /**
   * Admits an attempt whose translated request names only objects that its caller may use there: an ordinary address in the
   * client's protocol may be an object's address in the provider's.
   * @throws GatewayError `object_not_found` at the client's own field
   */
  admitTranslated(exchange: Pick<Exchange, "caller" | "body">, attempt: Attempt): void | Promise<void> {
    const { caller } = exchange;
    const { operation, protocol, target, body } = attempt;
    const { objects } = protocol;
    // An untranslated request has been checked already.
    if (!operation || !objects || this.share === "all") return;
    const told = (thrown: unknown) => inClientsWords(thrown, body, exchange.body);
    try {
      const owners = ownersOf(this.share, caller);
      const named = this.namedIn(objects)
        .of(body)
        .filter(({ id }) => !this.issued.isOf(id, owners));
      const judged = named.length === 0 ? undefined : this.admitAt(target.provider.name, named, caller);
      if (!(judged instanceof Promise)) return;
      return judged.catch((thrown) => {
        throw told(thrown);
      });
    } catch (thrown) {
      throw told(thrown);
    }
  }

  /**
   * Admits a request that names only objects its caller may use at one provider.
   * @throws GatewayError `object_not_found`
   */
  admitAt(provider: string, named: readonly NamedObject[], caller: Caller | undefined): void | Promise<void> {
    return this.places(named, caller, (found) => {
      for (const { object, places } of found) if (places && !places.has(provider)) throw notFound(object);
    });
  }

  /**
   * Admits synchronously, for bytes that are streamed and cannot be held back.
   * @throws GatewayError as `admitAt`, and `store_unavailable` where only the store has the answer
   */
  admitNow(provider: string, named: readonly NamedObject[], caller: Caller | undefined): void {
    const judged = named.length === 0 ? undefined : this.admitAt(provider, named, caller);
    if (!judged) return;
    // Its result is no longer of use, and an unhandled rejection would end the process.
    judged.catch(() => {});
    throw new GatewayError("store_unavailable", {
      message: "The gateway must ask its store whether this key may name that object, and cannot wait for it here.",
    });
  }

  /** Returns the finder of objects in a protocol. */
  namedIn(words: ObjectWords): NamedObjects {
    return this.naming.get(words) as NamedObjects;
  }

  /**
   * Returns a stage that records what a provider's response reports as created, from its original bytes; undefined: it reports
   * nothing.
   */
  stage(exchange: Exchange, head: Head): Stage | undefined {
    const { protocol, operation, body, model, attempt } = exchange;
    const { objects } = protocol;
    // The ids in a translated response are unknown to every provider.
    if (!objects || !attempt || attempt.protocol !== protocol || attempt.operation) return undefined;
    if (head.status >= 300 || !operation.generates || !objects.makes?.(body)) return undefined;
    const note = (json: unknown) =>
      this.note(objects.made(asObject(json) ?? {}, body), exchange.caller, attempt.target.provider.name, model?.id);
    if (head.framing)
      return (frame) => {
        if (frame.kind !== "end" && objects.tells(frame)) note(frame.json());
      };
    const members = new PassingMembers(objects.members);
    return (frame) => {
      const found = frame.kind === "piece" ? members.push(frame.bytes) : undefined;
      if (found) note(found);
    };
  }

  /** Records objects that a caller has created; callers without a key own nothing. */
  note(ids: Iterable<string>, caller: Caller | undefined, provider: string, model?: string): void {
    if (!caller) return;
    const { id: key, group } = caller;
    const own = { provider, key, ...(group === undefined ? {} : { group }), ...(model === undefined ? {} : { model }) };
    const made = [...ids].map((id) => ({ id, ...own }));
    if (made.length > 0) this.owners.add(made);
  }

  /** Returns the stored answer with an id, if the caller may use it. */
  answer(id: string, caller: Caller | undefined): OwnedObject | undefined | Promise<OwnedObject | undefined> {
    const found = this.owners.findSoon(id);
    const allowed = (rows: readonly OwnedObject[]) => rows.find((row) => row.model && this.mayUse(row, caller));
    return found instanceof Promise ? found.then(allowed) : allowed(found);
  }

  /**
   * Passes on the providers of each named object; undefined for an object that only its provider knows.
   * @throws GatewayError `invalid_field` for too many objects
   */
  private places(
    named: readonly NamedObject[],
    caller: Caller | undefined,
    then: (found: readonly KeptObject[]) => void,
    absent = notFound,
  ): void | Promise<void> {
    const objects = strictest(named);
    const beyond = objects[MOST];
    if (beyond) throw tooMany(beyond);
    // Before an unknown id is refused, the store is asked: another gateway may just have recorded it.
    const refuses = (id: string) => this.share !== "all" && !this.shared.has(id);
    const look = ({ id, own }: NamedObject) => (!own && refuses(id) ? this.owners.findSoon(id) : this.owners.find(id));
    const judge = (object: NamedObject, rows: readonly OwnedObject[]): KeptObject => ({
      object,
      places: this.keepers(object, rows, caller, absent),
    });
    const found: KeptObject[] = [];
    for (const [i, object] of objects.entries()) {
      const rows = look(object);
      if (rows instanceof Promise) {
        // In parallel, because each lookup is a round trip to a server.
        const later = [rows, ...objects.slice(i + 1).map(look)];
        return Promise.all(later).then((all) => {
          then([...found, ...all.map((rows, at) => judge(objects[i + at] as NamedObject, rows))]);
        });
      }
      // The first object that may not be named ends the lookups.
      found.push(judge(object, rows));
    }
    then(found);
  }

  private keepers(
    object: NamedObject,
    rows: readonly OwnedObject[],
    caller: Caller | undefined,
    absent: typeof notFound,
  ): ReadonlySet<string> | undefined {
    const allowed = rows.filter((row) => this.mayUse(row, caller)).map(({ provider }) => provider);
    const places = new Set([...allowed, ...(this.shared.get(object.id) ?? [])]);
    // Unknown, or the caller's to use: the content is sent beside the id, so every provider can process it.
    if (object.own && (rows.length === 0 || places.size > 0)) return undefined;
    if (places.size > 0) return places;
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
function strictest(named: readonly NamedObject[]): NamedObject[] {
  const objects = new Map<string, NamedObject>();
  for (const object of named) {
    const before = objects.get(object.id);
    if (!before || before.own || (before.whole && !object.whole)) objects.set(object.id, object);
  }
  return [...objects.values()];
}

/** Limit of distinct objects in a request; vendors accept a few hundred files at most. */
const MOST = 1000;

/** A named object, and the providers that store it; undefined: only its provider knows. */
interface KeptObject {
  readonly object: NamedObject;
  readonly places: ReadonlySet<string> | undefined;
}

const tooMany = ({ param }: NamedObject): GatewayError =>
  new GatewayError("invalid_field", {
    message: `The request names more than ${MOST} objects.`,
    hint: "Ask with fewer at a time.",
    ...(param === undefined ? {} : { param }),
  });

const ABSENT = "it names an object at a provider that cannot serve this request now";

/** Limits the targets to the providers that store the objects: an object exists at its provider only. */
function keep(exchange: Exchange, found: readonly KeptObject[]): void {
  for (const { object, places } of found) {
    if (!places) continue;
    const { id, param, unknown, whole } = object;
    const reads = (target: Target) => !whole || speaks(target, exchange.protocol.name);
    const targets = exchange.targets.filter((target) => places.has(target.provider.name) || !reads(target));
    if (unknown && targets.length < exchange.targets.length)
      exchange.unkept ??= new GatewayError("object_not_found", { ...unknown, message: `${param}: ${ABSENT}.` });
    if (targets.length === 0 && exchange.unkept) throw exchange.unkept;
    if (targets.length === 0)
      throw new GatewayError("invalid_field", {
        message: `"${id}" is kept by a provider that does not serve this model, or not together with the others.`,
        hint: "Name the model it was made for.",
        ...(param === undefined ? {} : { param }),
      });
    exchange.targets = targets;
  }
}

const notFound = ({ param, unknown }: NamedObject): GatewayError =>
  new GatewayError("object_not_found", { ...(param === undefined ? {} : { param }), ...unknown });

/** Moves the error about a translated body to the client's field from which the text came. */
function inClientsWords(thrown: unknown, sent: Body, asked: Body): unknown {
  if (!(thrown instanceof GatewayError) || thrown.param === undefined) return thrown;
  const text = thrown.param.split(".").reduce<unknown>((value, name) => (value as JsonObject)?.[name], sent.json());
  const path = typeof text === "string" ? pathOf(text, asked.json()) : undefined;
  const param = path?.join(".");
  return new GatewayError("object_not_found", {
    message: `${param === undefined ? "" : `${param}: `}The object at this address is stored at the model's provider and does not belong to this key.`,
    hint: "Send the bytes themselves, or an address that anybody can read.",
    cause: thrown,
    ...(param === undefined ? {} : { param }),
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

/** Reports whether requests of a protocol go to a target without translation. */
const speaks = ({ provider, via }: Target, name: string): boolean =>
  provider.speaks.includes(name) && (via === undefined || via === name);

/** Where no provider of the model uses the client's protocol, the id can be no stored object, whatever key sends it. */
const notKept = ({ param, unknown }: NamedObject): GatewayError =>
  new GatewayError("object_not_found", {
    ...(param === undefined ? {} : { param }),
    message: `${param === undefined ? "" : `${param}: `}No provider of this model stores the object named here.`,
    hint: "Send its content instead, or name a model whose provider speaks the protocol of this path.",
    ...unknown,
  });
