import type { IncomingMessage } from "node:http";
import { FailureLimiter } from "../core/failure-limiter.ts";
import type { Log } from "../core/log.ts";
import { addressLimitKey, LOOPBACK, Networks, peerAddress } from "../core/networks.ts";
import { AdminError } from "./errors.ts";
import type { Role } from "./user.ts";

/** Wrong tokens that an address may send per minute. */
const MAX_WRONG_TOKENS = 10;

/** Limits guesses of the admin side's tokens: an address that has sent too many is refused for a while. */
export class WrongTokens {
  /** Number of wrong tokens since the start. */
  total = 0;
  private readonly failures = new FailureLimiter();

  /** @param trust proxies whose X-Forwarded-For is trusted */
  constructor(
    private readonly log: Log,
    private readonly trust: () => readonly string[],
  ) {}

  /**
   * Counts and logs a wrong token.
   * @param role of the token that was sent; undefined: it is wrong
   * @returns the role
   * @throws AdminError the address has sent too many wrong ones; a correct one is refused too, so that guessing does not help
   */
  check(request: IncomingMessage, role: Role | undefined): Role | undefined {
    const { address, isShared } = this.sender(request);
    const key = addressLimitKey(address);
    if (role && isShared) return role;
    const retryAfter = role ? this.failures.retryAfter(key, MAX_WRONG_TOKENS) : this.addFailure(address, key);
    if (retryAfter !== undefined)
      throw new AdminError("too_many", "Too many wrong tokens came from this address: wait a minute.", { retryAfter });
    return role;
  }

  /** Logs the first failure and the one from which the address is refused: a line for each could fill a disk. */
  private addFailure(address: string, key: string): number | undefined {
    this.total++;
    const retryAfter = this.failures.add(key, MAX_WRONG_TOKENS);
    const wrong = this.failures.count(key);
    if (wrong === 1) this.log.warn({ address }, "a wrong token on the admin side");
    else if (wrong === MAX_WRONG_TOKENS + 1)
      this.log.warn({ address, wrong, retryAfter }, "too many wrong tokens on the admin side");
    return retryAfter;
  }

  /**
   * Returns who sends a request, as far as it is known. A Unix socket, or this machine, may be a proxy that is not in `trust`: its
   * correct tokens are never refused, as anybody behind it could lock out all others.
   */
  private sender(request: IncomingMessage): { address: string; isShared: boolean } {
    const address = this.addressOf(request);
    const isShared = address === "" || LOOPBACK.test(address) || new Networks(this.trust()).has(address);
    return { address, isShared };
  }

  /** Returns the address of who sends a request; behind a proxy in `trust`, the one that it names. Empty for a Unix socket. */
  addressOf({ socket, headersDistinct }: IncomingMessage): string {
    const peer = peerAddress(socket);
    const trust = new Networks(this.trust());
    return trust.has(peer) ? trust.clientAddress(peer, headersDistinct["x-forwarded-for"] ?? []) : peer;
  }
}
