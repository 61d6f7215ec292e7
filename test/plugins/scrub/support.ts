import Scrub from "../../../plugins/scrub.ts";
import { Attempt } from "../../../src/core/attempt.ts";
import { Body } from "../../../src/core/body.ts";
import { Exchange } from "../../../src/core/exchange.ts";
import type { Log } from "../../../src/core/log.ts";
import { Marketplace, type Model, type Target } from "../../../src/core/marketplace.ts";
import type { Operation, Protocol } from "../../../src/core/protocol.ts";
import { HeaderList } from "../../../src/wire/headers.ts";
import { scan } from "../../../src/wire/json.ts";
import { Query } from "../../../src/wire/query.ts";
import { MemoryLog } from "../../support/gateway.ts";

export const PING = Buffer.from(": ping\n\n");

/** The protocols whose fields are checked. */
export const PROTOCOLS = [
  "openai-chat",
  "openai-completions",
  "openai-responses",
  "openai-images",
  "openai-embeddings",
  "anthropic-messages",
  "gemini",
];

export const model = (id: string, aliases: string[] = []): Model => ({
  id,
  name: id,
  aliases,
  created: 0,
  capabilities: [],
  targets: [],
  balance: "weighted",
  fallback: [],
});

export interface Asked {
  protocol?: string;
  headers?: string[];
  query?: string;
  body?: string;
  asked?: string;
  /** True for a body that is no JSON. */
  form?: boolean;
}

/** The plugin as the container builds it: options checked against its schema. */
export function scrub(options: object = {}, models: Model[] = [model("fast")], log: Log = new MemoryLog()): Scrub {
  return new Scrub(Scrub.options.parse(options), new Marketplace(models), log);
}

export function exchange({
  protocol = "openai-chat",
  headers = [],
  query = "",
  body = "{}",
  asked,
  form = false,
}: Asked = {}): Exchange {
  const made = new Exchange({
    id: "1",
    time: 0,
    arrivedAt: 0,
    method: "POST",
    path: "/v1/x",
    query: new Query(query),
    headers: new HeaderList([...headers]),
    credentials: [],
    protocol: { name: protocol, ping: PING } as Protocol,
    operation: {} as Operation,
  });
  const bytes = Buffer.from(body);
  made.body = new Body([bytes], form ? undefined : scan(bytes));
  made.requestedModel = asked;
  return made;
}

/** Both phases, as a chain runs them. */
export function pass(plugin: Scrub, passing: Exchange): Exchange {
  plugin.access(passing);
  plugin.request(passing);
  return passing;
}

/** The body as it would go upstream. */
export const bodyOf = (passed: Exchange): string => passed.body.bytes().toString();

/** Says that a provider has answered. */
export function answeredBy(exchange: Exchange, provider: string): void {
  const target = { provider: { name: provider }, model: "m", weight: 1 } as unknown as Target;
  const { protocol, body } = exchange;
  const start = { target, protocol, method: "POST", path: "/", headers: new HeaderList(), body, startedAt: 0 };
  exchange.attempts.push(new Attempt(start));
}
