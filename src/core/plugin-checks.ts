import { TOKEN } from "../wire/header-names.ts";
import { checkHeaderLines, isSendableInPath } from "../wire/headers.ts";
import type { Attempt } from "./attempt.ts";
import type { Exchange } from "./exchange.ts";
import { type Head, isFinalStatus } from "./head.ts";
import { keepTexts } from "./notices.ts";
import { type PluginDeadline, toPluginError } from "./plugin-deadline.ts";
import { checkUsage } from "./usage.ts";

/** Throws for a status that cannot be sent, while it is known who has set it. */
export function checkStatus({ status }: Head, { origin }: PluginDeadline): void {
  if (!isFinalStatus(status))
    throw toPluginError(new RangeError(`An answer cannot have the status ${status}.`), origin);
}

/** Throws where a plugin still reads the response: what it has taken of it until now would be missing in the client's. */
export function checkRead({ isReading }: Head, { origin }: PluginDeadline): void {
  if (isReading) throw toPluginError(new Error("The phase has ended before readBody has: await it."), origin);
}

/**
 * Throws for an answer of a plugin when a provider has been chosen, and takes it away: the provider's answer would be recorded as the
 * plugin's.
 * @param before the answer before the plugin's phase
 */
export function checkNoAnswer(exchange: Exchange, before: Exchange["answer"], { origin }: PluginDeadline): void {
  if (exchange.answer === before) return;
  exchange.answer = before;
  throw toPluginError(new TypeError("A plugin answers in access, request or route, and in no later phase."), origin);
}

/**
 * Throws for header lines that cannot be sent, while it is known who has added them, and removes these.
 * @param before the number of entries before the plugin's phase
 */
export function checkReplyHeaders({ replyHeaders }: Exchange, before: number, { origin }: PluginDeadline): void {
  if (replyHeaders.length === before) return;
  try {
    checkHeaderLines(replyHeaders);
  } catch (thrown) {
    replyHeaders.splice(before);
    throw toPluginError(thrown, origin);
  }
}

/** Throws for a notice, or the name of something dropped, that is no text, and removes it. */
export function checkNotices({ notices, dropped }: Exchange, { origin }: PluginDeadline): void {
  if (notices.length + dropped.length > 0 && keepTexts(notices, dropped))
    throw toPluginError(new TypeError("A notice, or the name of what was dropped, is no text."), origin);
}

/** Throws for a method, path or query that cannot be sent, while it is known who has set it. */
export function checkAddress({ method, path, query }: Attempt, { origin }: PluginDeadline): void {
  const isSendable =
    TOKEN.test(method) &&
    (path === undefined || (isSendableInPath(path) && path.startsWith("/"))) &&
    (query === undefined || isSendableInPath(query));
  if (!isSendable)
    throw toPluginError(new TypeError("A plugin has set a method, path or query that cannot be sent."), origin);
}

/** Removes usage with members that a plugin has replaced by what is no count, and returns the error. */
export function removeBrokenUsage(exchange: Exchange): Error | undefined {
  try {
    if (exchange.usage) checkUsage(exchange.usage);
    return undefined;
  } catch (error) {
    exchange.usage = undefined;
    return error as Error;
  }
}
