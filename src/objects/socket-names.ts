import { notJson, uniquely } from "../core/body.ts";
import { GatewayError } from "../core/errors.ts";
import type { Exchange } from "../core/exchange.ts";
import { otherNotAllowed } from "../core/key-scope.ts";
import type { Marketplace, Provider } from "../core/marketplace.ts";
import type { SocketWords } from "../core/protocol.ts";
import { AnyOf } from "../wire/any-of.ts";
import { JsonError, scan } from "../wire/json.ts";
import type { Objects } from "./objects.ts";

/**
 * Judges what a client says on a WebSocket, message by message: the objects that it names must be its key's own or shared with
 * it, and models those that its key may use at that provider.
 */
export class SocketNames {
  private readonly marks: AnyOf;

  constructor(
    private readonly words: SocketWords,
    private readonly exchange: Pick<Exchange, "caller">,
    private readonly provider: Provider,
    private readonly objects: Objects,
    private readonly marketplace: Marketplace,
  ) {
    // A letter may be written as an escape, and some servers read names in any case.
    this.marks = new AnyOf([...words.marks.flatMap((mark) => inAnyCase(`"${mark}"`)), "\\u00"]);
  }

  /** Whether there is anything to judge: not where all keys may use all. */
  static needed({ caller }: Pick<Exchange, "caller">, { share }: Objects): boolean {
    return share !== "all" || caller?.models !== undefined;
  }

  /** Why a message of the client may not go on: `key_not_allowed`, `object_not_found`, `invalid_json`; undefined: it may. */
  fault(message: Buffer): GatewayError | undefined {
    try {
      this.check(message);
      return undefined;
    } catch (thrown) {
      return GatewayError.from(thrown);
    }
  }

  private check(message: Buffer): void {
    // Never in JSON in UTF-8, always where it is written in 16 or 32 bits, as some readers take it.
    if (message.includes(0))
      throw new GatewayError("invalid_json", { message: "A message holds a zero byte: it is no JSON in UTF-8." });
    if (!this.marks.among([message])) return;
    bounded(message);
    const { exchange, provider, objects } = this;
    const names = [...this.words.names(uniquely(message))];
    if (names.length > MOST)
      throw new GatewayError("invalid_field", { message: `A message names more than ${MOST} models and objects.` });
    for (const { kind, name, param } of names)
      if (kind === "model") this.checkModel(name, param);
      else objects.admitNow(provider.name, [{ id: name, param }], exchange.caller);
  }

  /** Here clients use the vendor's own names: frames pass as they are, so that none could be put in their place. */
  private checkModel(name: string, param: string): void {
    const { caller } = this.exchange;
    if (!caller?.models || this.marketplace.at(this.provider, name, caller)) return;
    throw otherNotAllowed(caller, name, param);
  }
}

/** Models and objects that a message may name. */
const MOST = 100;

/** @throws GatewayError `invalid_json` for what is nested deeper, or has more members, than a body may */
function bounded(message: Buffer): void {
  try {
    scan(message, { duplicates: "allow" });
  } catch (thrown) {
    throw thrown instanceof JsonError ? notJson(thrown) : thrown;
  }
}

/** All spellings of a short word. */
function inAnyCase(word: string): string[] {
  let all = [""];
  for (const letter of word) {
    const both = new Set([letter.toLowerCase(), letter.toUpperCase()]);
    all = all.flatMap((before) => [...both].map((each) => before + each));
  }
  return all;
}
