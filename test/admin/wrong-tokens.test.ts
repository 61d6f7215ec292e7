import type { IncomingMessage } from "node:http";
import t from "tap";
import { AdminError } from "../../src/admin/errors.ts";
import { WrongTokens } from "../../src/admin/wrong-tokens.ts";
import { MemoryLog } from "../support/gateway.ts";

/** A request from a peer, with the values of X-Forwarded-For. */
const from = (peer: string, ...forwarded: string[]) =>
  ({
    socket: { remoteAddress: peer },
    headersDistinct: { "x-forwarded-for": forwarded },
  }) as unknown as IncomingMessage;

/** What a limiter says of a right token from there, after 20 wrong ones. */
function afterWrongOnes(wrong: IncomingMessage, right: IncomingMessage, trust: string[] = []): string | undefined {
  const tokens = new WrongTokens(new MemoryLog(), () => trust);
  for (let i = 0; i < 20; i++)
    try {
      tokens.check(wrong, undefined);
    } catch (thrown) {
      if (!(thrown instanceof AdminError && thrown.status === 429 && i >= 10)) throw thrown;
    }
  try {
    return tokens.check(right, "viewer");
  } catch (thrown) {
    return String((thrown as AdminError).code);
  }
}

t.test("an address that guesses is refused, of IPv6 its /64, and behind a trusted proxy its own only", async (t) => {
  const proxy = ["10.0.0.1"];
  for (const [wrong, right, trust, expected] of [
    [from("192.0.2.1"), from("192.0.2.1"), [], "too_many"],
    [from("192.0.2.1"), from("::ffff:192.0.2.1"), [], "too_many"],
    [from("192.0.2.1"), from("192.0.2.2"), [], "viewer"],
    [from("2001:db8::1"), from("2001:db8::2"), [], "too_many"],
    [from("2001:db8::1"), from("2001:db8:0:1::1"), [], "viewer"],
    [from("10.0.0.1", "192.0.2.1"), from("10.0.0.1", "192.0.2.1"), proxy, "too_many"],
    [from("10.0.0.1", "192.0.2.1"), from("10.0.0.1", "192.0.2.2"), proxy, "viewer"],
    [from("10.0.0.1", "192.0.2.2", "192.0.2.1"), from("10.0.0.1", "192.0.2.2"), proxy, "viewer"],
    [from("192.0.2.1", "192.0.2.3"), from("192.0.2.1", "192.0.2.4"), proxy, "too_many"],
  ] as const)
    t.equal(afterWrongOnes(wrong, right, [...trust]), expected, JSON.stringify([wrong, right, trust]));
});

t.test("who may be a proxy that hides others is never refused with a right token", async (t) => {
  for (const [peer, trust] of [
    ["127.0.0.1", []],
    ["::1", []],
    ["", []],
    ["10.0.0.1", ["10.0.0.1"]],
  ] as const)
    t.equal(afterWrongOnes(from(peer), from(peer), [...trust]), "viewer", peer);
});
