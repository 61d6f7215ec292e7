import { readFileSync } from "node:fs";
import { join } from "node:path";
import Scrub from "../../../plugins/scrub.ts";
import { Attempt } from "../../../src/core/attempt.ts";
import { Body } from "../../../src/core/body.ts";
import { Exchange } from "../../../src/core/exchange.ts";
import { Log } from "../../../src/core/log.ts";
import { Marketplace, type Model, type Target } from "../../../src/core/marketplace.ts";
import type { Operation, Protocol } from "../../../src/core/protocol.ts";
import { HeaderList } from "../../../src/wire/headers.ts";
import { scan } from "../../../src/wire/json.ts";
import { Query } from "../../../src/wire/query.ts";
import { shared } from "../../support/shared.ts";

export const PING = Buffer.from(": ping\n\n");

/** A log that keeps what it was told. */
export class Kept extends Log {
  readonly lines: { fields: object; message: string }[] = [];
  debug(fields: object, message: string): void {
    this.lines.push({ fields, message });
  }
  info(): void {}
  warn(): void {}
  error(): void {}
  async flush(): Promise<void> {}
}

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
export function scrub(options: object = {}, models: Model[] = [model("fast")], log: Log = new Kept()): Scrub {
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

/** A recorded exchange with a vendor. */
export interface Recorded {
  id: string;
  streaming: boolean;
  /** The request's JSON body, where it was kept. */
  request: unknown;
  body: string;
}

/** A vendor's recordings in one folder; none where the recordings are absent. */
export function recorded(protocol: string, vendor: string): Recorded[] {
  const folder = shared("recordings");
  if (!folder) return [];
  const lines = readFileSync(join(folder, "index.jsonl"), "utf8").trim().split("\n");
  return lines
    .map((line) => JSON.parse(line) as { id: string; protocol: string; vendor: string; kinds: string[] })
    .filter((entry) => entry.protocol === protocol && entry.vendor === vendor)
    .map(({ id, kinds }) => {
      const stored = JSON.parse(readFileSync(join(folder, `${id}.json`), "utf8")) as {
        request?: { body?: unknown } | null;
        response: { body_raw: string };
      };
      return { id, streaming: kinds.includes("stream"), request: stored.request?.body, body: stored.response.body_raw };
    });
}
