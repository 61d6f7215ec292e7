import { GatewayError } from "../core/errors.ts";
import type { Exchange, Head } from "../core/exchange.ts";
import type { Caller, Provider, Target } from "../core/marketplace.ts";
import type { ObjectWords } from "../core/protocol.ts";
import type { Stage } from "../core/stage.ts";
import type { OwnedObject, Owners } from "../store/owners.ts";
import { asObject } from "../wire/values.ts";
import type { IssuedIds } from "./issued.ts";
import { PassingMembers } from "./made.ts";
import { type NamedObject, NamedObjects } from "./named.ts";
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
  ) {
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
    const named = all.filter(({ id }) => !this.issued.isOf(id, owners));
    if (named.length === 0) return;
    const absent = exchange.targets.some((target) => speaks(target, exchange.protocol.name)) ? notFound : notKept;
    return this.places(named, exchange.caller, (keepers) => keep(exchange, named, keepers), absent);
  }

  /**
   * Lets a request through that names only what its caller may use at one provider.
   * @throws GatewayError `object_not_found`
   */
  admitAt(provider: string, named: readonly NamedObject[], caller: Caller | undefined): void | Promise<void> {
    return this.places(named, caller, (keepers) => {
      for (const [i, places] of keepers.entries())
        if (places && !places.has(provider)) throw notFound(named[i] as NamedObject);
    });
  }

  /** Where the objects stand in the words of a protocol. */
  namedIn(words: ObjectWords): NamedObjects {
    let naming = this.naming.get(words);
    if (!naming) {
      naming = new NamedObjects(words);
      this.naming.set(words, naming);
    }
    return naming;
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

  /** Hands on the providers of each named object; undefined for one of which only its provider knows. */
  private places(
    named: readonly NamedObject[],
    caller: Caller | undefined,
    then: (keepers: readonly (ReadonlySet<string> | undefined)[]) => void,
    absent = notFound,
  ): void | Promise<void> {
    // Where an id of which nobody knows is refused it may be one that another gateway has just heard of.
    const refuses = (id: string) => this.share !== "all" && !this.shared.has(id);
    const found = named.map(({ id }) => (refuses(id) ? this.owners.findSoon(id) : this.owners.find(id)));
    const judge = (rows: readonly (readonly OwnedObject[])[]) =>
      then(named.map((object, i) => this.keepers(object, rows[i] ?? [], caller, absent)));
    if (found.some((each) => each instanceof Promise)) return Promise.all(found).then(judge);
    judge(found as readonly (readonly OwnedObject[])[]);
  }

  private keepers(
    object: NamedObject,
    rows: readonly OwnedObject[],
    caller: Caller | undefined,
    absent: typeof notFound,
  ): ReadonlySet<string> | undefined {
    const allowed = rows.filter((row) => this.mayUse(row, caller)).map(({ provider }) => provider);
    const places = new Set([...allowed, ...(this.shared.get(object.id) ?? [])]);
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

const ABSENT = "what it names is kept by a provider that cannot answer this now";

/** An object is at its provider and nowhere else. */
function keep(
  exchange: Exchange,
  named: readonly NamedObject[],
  keepers: readonly (ReadonlySet<string> | undefined)[],
): void {
  for (const [i, places] of keepers.entries()) {
    if (!places) continue;
    const targets = exchange.targets.filter(({ provider }) => places.has(provider.name));
    const { id, param, unknown } = named[i] as NamedObject;
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
