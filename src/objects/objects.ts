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
 * Keeps the objects of one key from the others: what a request names must be its key's own, or shared with it, and what an
 * answer says was made is noted as its key's.
 */
export class Objects {
  private readonly naming = new Map<ObjectWords, NamedObjects>();
  /** Providers by the ids that every caller may name there. */
  private readonly shared = new Map<string, readonly string[]>();

  constructor(
    private readonly owners: Owners,
    readonly share: Share,
    providers: Iterable<Provider>,
    private readonly issued: IssuedIds,
    protocols: Iterable<Protocol>,
  ) {
    // All at once: a body is looked through for what is known when it comes.
    for (const { objects, vendor } of protocols)
      for (const words of [objects, vendor?.words]) if (words) this.naming.set(words, namedObjects(words));
    for (const { name, shared = [] } of providers)
      for (const id of shared) this.shared.set(id, [...(this.shared.get(id) ?? []), name]);
  }

  /**
   * Lets a request through that names only what its caller may use, and leaves it the targets where that is kept.
   * @throws GatewayError `object_not_found`, in the same words whether it is another key's or nobody's
   */
  admit(exchange: Exchange): void | Promise<void> {
    const { objects } = exchange.protocol;
    const { kept } = exchange.operation;
    const all =
      kept === undefined ? objects && this.namedIn(objects).of(exchange.body) : [{ id: kept, param: undefined }];
    if (!all || all.length === 0) return;
    // What the gateway has made up is kept nowhere: who reads the request says what becomes of that.
    const owners = ownersOf(this.share, exchange.caller);
    const native = exchange.targets.some((target) => speaks(target, exchange.protocol.name));
    const named = all.filter(({ id, whole }) => (native || !whole) && !this.issued.isOf(id, owners));
    if (named.length === 0) return;
    const absent = native ? notFound : notKept;
    return this.places(named, exchange.caller, (found) => keep(exchange, found), absent);
  }

  /**
   * Lets an attempt through whose request, translated, names only what its caller may use there: what is an address like any
   * other in the client's protocol may be an object's in the provider's.
   * @throws GatewayError `object_not_found` at the client's own field
   */
  admitTranslated(exchange: Pick<Exchange, "caller" | "body">, attempt: Attempt): void | Promise<void> {
    const { caller } = exchange;
    const { operation, protocol, target, body } = attempt;
    const { objects } = protocol;
    // What was not translated is judged already.
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
   * Lets a request through that names only what its caller may use at one provider.
   * @throws GatewayError `object_not_found`
   */
  admitAt(provider: string, named: readonly NamedObject[], caller: Caller | undefined): void | Promise<void> {
    return this.places(named, caller, (found) => {
      for (const { object, places } of found) if (places && !places.has(provider)) throw notFound(object);
    });
  }

  /**
   * The same where nobody can be waited for: what goes by cannot be kept back.
   * @throws GatewayError also `store_unavailable` for what only the store knows
   */
  admitNow(provider: string, named: readonly NamedObject[], caller: Caller | undefined): void {
    const judged = named.length === 0 ? undefined : this.admitAt(provider, named, caller);
    if (!judged) return;
    // What that comes to is of no use any more, and a failure that nobody hears would end the process.
    judged.catch(() => {});
    throw new GatewayError("store_unavailable", {
      message:
        "Whether this key may name that object is known only at the gateway's store, and cannot be waited for here.",
    });
  }

  /** Where the objects stand in the words of a protocol. */
  namedIn(words: ObjectWords): NamedObjects {
    return this.naming.get(words) as NamedObjects;
  }

  /** Notes what the answer of a provider says was made, from its own bytes; undefined: it can say nothing of that. */
  stage(exchange: Exchange, head: Head): Stage | undefined {
    const { protocol, operation, body, model, attempt } = exchange;
    const { objects } = protocol;
    // An answer that was translated has ids that no provider has ever heard of.
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

  /** Notes what a caller has made; callers without a key own nothing. */
  note(ids: Iterable<string>, caller: Caller | undefined, provider: string, model?: string): void {
    if (!caller) return;
    const { id: key, group } = caller;
    const own = { provider, key, ...(group === undefined ? {} : { group }), ...(model === undefined ? {} : { model }) };
    const made = [...ids].map((id) => ({ id, ...own }));
    if (made.length > 0) this.owners.add(made);
  }

  /** The answer of that id, if the caller may use it. */
  answer(id: string, caller: Caller | undefined): OwnedObject | undefined | Promise<OwnedObject | undefined> {
    const found = this.owners.findSoon(id);
    const allowed = (rows: readonly OwnedObject[]) => rows.find((row) => row.model && this.mayUse(row, caller));
    return found instanceof Promise ? found.then(allowed) : allowed(found);
  }

  /**
   * Hands on the providers of each named object; undefined for one of which only its provider knows.
   * @throws GatewayError `invalid_field` for more objects than anybody names
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
    // Where an id of which nobody knows is refused it may be one that another gateway has just heard of.
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
        // Asked together: each is a way to a server and back.
        const later = [rows, ...objects.slice(i + 1).map(look)];
        return Promise.all(later).then((all) => {
          then([...found, ...all.map((rows, at) => judge(objects[i + at] as NamedObject, rows))]);
        });
      }
      // The first that may not be named is the last that is looked for.
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
    // Known or not, what is said beside it goes anywhere.
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

/** Each object once, as the strictest of what names it has it. */
function strictest(named: readonly NamedObject[]): NamedObject[] {
  const objects = new Map<string, NamedObject>();
  for (const object of named) {
    const before = objects.get(object.id);
    if (!before || before.own || (before.whole && !object.whole)) objects.set(object.id, object);
  }
  return [...objects.values()];
}

/** Different objects that a request may name; vendors take some hundreds of files at most. */
const MOST = 1000;

/** A named object, and the providers where it is kept; undefined: only its own knows. */
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

const ABSENT = "what it names is kept by a provider that cannot answer this now";

/** An object is at its provider and nowhere else. */
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

/** A refusal of what a translated body names, at the field of the client's from which that came. */
function inClientsWords(thrown: unknown, sent: Body, asked: Body): unknown {
  if (!(thrown instanceof GatewayError) || thrown.param === undefined) return thrown;
  const text = thrown.param.split(".").reduce<unknown>((value, name) => (value as JsonObject)?.[name], sent.json());
  const path = typeof text === "string" ? pathOf(text, asked.json()) : undefined;
  const param = path?.join(".");
  return new GatewayError("object_not_found", {
    message: `${param === undefined ? "" : `${param}: `}The model's provider keeps what stands at this address, and not for this key.`,
    hint: "Send the bytes themselves, or an address that anybody can read.",
    cause: thrown,
    ...(param === undefined ? {} : { param }),
  });
}

/** Where a text stands in a value. */
function pathOf(text: string, value: unknown): string[] | undefined {
  if (value === text) return [];
  if (typeof value !== "object" || value === null) return undefined;
  for (const [name, inner] of Object.entries(value)) {
    const below = pathOf(text, inner);
    if (below) return [name, ...below];
  }
  return undefined;
}

/** Whether requests of a protocol go to a target as they are. */
const speaks = ({ provider, via }: Target, name: string): boolean =>
  provider.speaks.includes(name) && (via === undefined || via === name);

/** Where no provider of the model speaks the client's protocol nobody's object could be meant, whatever key asks. */
const notKept = ({ param, unknown }: NamedObject): GatewayError =>
  new GatewayError("object_not_found", {
    ...(param === undefined ? {} : { param }),
    message: `${param === undefined ? "" : `${param}: `}No provider of this model keeps what is named here.`,
    hint: "Send what it stands for instead, or name a model whose provider speaks the protocol of this path.",
    ...unknown,
  });
