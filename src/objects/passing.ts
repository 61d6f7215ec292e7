import { GatewayError } from "../core/errors.ts";
import type { Exchange } from "../core/exchange.ts";
import type { Protocol, VendorObjects } from "../core/protocol.ts";
import { asList, asObject, asText, type JsonObject } from "../wire/values.ts";
import { PassingMembers } from "./made.ts";
import { type NamedObject, NamedObjects } from "./named.ts";
import type { Objects } from "./objects.ts";

/** Bodies that no vendor reads as JSON; any other one may be, whatever it says it is. */
const NOT_JSON =
  /^(?:multipart\/|audio\/|image\/|video\/|application\/(?:octet-stream|pdf|zip|sdp|x-ndjson|jsonl)\b|text\/csv\b)/i;
const VERSION = /^v\d+(?:\.\d+)?(?:(?:alpha|beta|preview)\d*)?$/i;
const OBJECT = "{".charCodeAt(0);
const SPACES: ReadonlySet<number> = new Set(Buffer.from(" \t\r\n"));

/** Where a path below a provider's address leads. */
export interface ObjectPath {
  /** It belongs to a collection of objects that keys own. */
  readonly owned: boolean;
  /** The outermost object; undefined: the collection as a whole. */
  readonly id?: string;
}

/**
 * Reads the objects out of a vendor's path: what stands below one of them belongs to it.
 * @param path as it came, without the query
 * @returns undefined for a path of which nothing is known
 */
export function objectPath(path: string, { collections, actions, anybodys }: VendorObjects): ObjectPath | undefined {
  const parts = decodeURIComponent(path)
    .split("/")
    .map((part) => part.replace(/[;:].*$/, "").trim())
    .filter((part) => part !== "" && !VERSION.test(part));
  for (let i = 0; i < parts.length; i++) {
    const two = parts
      .slice(i, i + 2)
      .join("/")
      .toLowerCase();
    const one = (parts[i] as string).toLowerCase();
    const length = collections.includes(two) ? 2 : collections.includes(one) ? 1 : 0;
    if (length === 0) continue;
    const id = parts[i + length];
    return id === undefined || actions.includes(id) ? { owned: true } : { owned: true, id };
  }
  return parts.some((part) => anybodys.includes(part.toLowerCase())) ? { owned: false } : undefined;
}

/** Keeps keys' objects apart where requests pass unread: by their paths, and by ids in bodies that are JSON. */
export class PassingObjects {
  private readonly path: ObjectPath | undefined;
  private readonly naming: readonly NamedObjects[];
  private readonly pieces: Buffer[] = [];
  private length = 0;
  /** What a body is, once its first byte is known. */
  private json: boolean | undefined;
  private members: PassingMembers | undefined;
  private readonly derived: readonly string[];

  /**
   * @param provider where the request goes
   * @param limit bytes of a JSON body at most
   */
  constructor(
    private readonly objects: Objects,
    private readonly exchange: Exchange,
    private readonly provider: string,
    below: string,
    spoken: readonly Protocol[],
    private readonly limit: number,
  ) {
    const vendors = [...new Set(spoken.flatMap(({ vendor }) => vendor ?? []))];
    for (const vendor of vendors) this.path ??= objectPath(below, vendor);
    this.naming = vendors.map(({ words }) => objects.namedIn(words));
    this.derived = vendors.flatMap(({ derived }) => derived);
    const making = /^P(?:OST|UT)$/.test(exchange.method) && this.path?.owned === true;
    const names = [...(making ? vendors.flatMap(({ words }) => words.members) : []), ...this.derived];
    if (this.path?.owned) this.members = new PassingMembers([...new Set(names)]);
    const coding = exchange.headers.get("content-encoding");
    if (this.judges && coding !== undefined && coding !== "identity")
      throw new GatewayError("unsupported_encoding", { hint: "Send JSON without content-encoding on this path." });
  }

  /** Whether its body may be JSON that names objects. */
  private get judges(): boolean {
    const { headers } = this.exchange;
    return (
      this.objects.share !== "all" &&
      this.naming.length > 0 &&
      !NOT_JSON.test(headers.get("content-type")?.trim() ?? "")
    );
  }

  /**
   * @param open the path also takes what may show other keys' objects: lists, and paths of which nothing is known
   * @throws GatewayError `object_not_found`, `key_not_allowed`
   */
  admit(open: boolean): void | Promise<void> {
    const { objects, path, exchange, provider } = this;
    if (objects.share === "all" || this.naming.length === 0) return;
    if (path?.id !== undefined) return objects.admitAt(provider, [{ id: path.id, param: undefined }], exchange.caller);
    const makes = exchange.method === "POST" || (exchange.method === "PUT" && path?.owned);
    const reads = /^(?:GET|HEAD|OPTIONS)$/.test(exchange.method);
    if (open || makes || (path?.owned === false && reads)) return;
    throw new GatewayError("key_not_allowed", {
      message: "This request could show or change what other keys made.",
      hint: "Name an object by its id; or let the operator set open: true on the path, or share: all.",
    });
  }

  /**
   * A piece of the request's body, before it goes on.
   * @throws GatewayError what `admit` throws; the provider has not all of the body then
   */
  up(bytes: Buffer): void {
    if (this.json === undefined) {
      const first = bytes.find((byte) => !SPACES.has(byte));
      if (first === undefined) return;
      this.json = first === OBJECT && this.judges;
    }
    if (!this.json) return;
    this.length += bytes.length;
    if (this.length > this.limit) throw new GatewayError("body_too_large");
    this.pieces.push(bytes);
    // The provider acts on the last byte that was announced, and on the end where none was.
    if (this.length >= Number(this.exchange.headers.get("content-length") ?? Infinity)) this.whole();
  }

  /** All of the request's body has come, before its end is passed on. @throws GatewayError as `up` */
  whole(): void {
    if (!this.json) return;
    this.json = false;
    const text = Buffer.concat(this.pieces.splice(0)).toString();
    let json: unknown;
    try {
      json = JSON.parse(text);
    } catch (cause) {
      throw new GatewayError("invalid_json", { cause });
    }
    const named: NamedObject[] = this.naming.flatMap((naming) => naming.in(json));
    const judged = named.length === 0 ? undefined : this.objects.admitAt(this.provider, named, this.exchange.caller);
    // What cannot be judged at once cannot be kept back here.
    if (judged) throw new GatewayError("internal", { status: 503, retry: true });
  }

  /** A piece of a JSON answer, before it goes on. */
  down(bytes: Buffer): void {
    const found = this.members?.push(bytes);
    if (found) this.objects.note(idsIn(found), this.exchange.caller, this.provider);
  }
}

/** The ids in members of an answer: texts, lists of them, and objects with a name or an id. The last part of a name is one. */
function* idsIn(members: JsonObject): Generator<string> {
  for (const value of Object.values(members))
    for (const each of Array.isArray(value) ? asList(value) : [value]) {
      const { name, id } = asObject(each) ?? {};
      const text = asText(each) ?? asText(name) ?? asText(id);
      if (text) yield text.slice(text.lastIndexOf("/") + 1);
    }
}
