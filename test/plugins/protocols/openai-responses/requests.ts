import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { decodeRequest } from "../../../../plugins/protocols/openai-responses/request.decode.ts";
import { encodeRequest } from "../../../../plugins/protocols/openai-responses/request.encode.ts";
import { type Facts } from "../../../../src/core/marketplace.ts";
import type { EncodeContext, IncomingRequest } from "../../../../src/translation/codec.ts";
import type { Conversation, FeatureUse } from "../../../../src/translation/conversation.ts";
import { Losses } from "../../../../src/translation/losses.ts";
import { ToolNames } from "../../../../src/translation/names.ts";
import { runAtOnce } from "../../../../src/translation/steps.ts";
import { NestedJson } from "../../../../src/wire/nested.ts";
import { type JsonObject } from "../../../../src/wire/values.ts";
import { shared } from "../../../support/shared.ts";

/** A question of one word, for requests in which something else matters. */
export const INPUT = { model: "any", input: "Hi" };

/** A request as it came, given as JSON or as its text; strings that start with `gw1.` are envelopes of `opened`. */
export function read(body: JsonObject | string, more: Partial<IncomingRequest> = {}): Conversation {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  return runAtOnce(
    decodeRequest({
      task: "generate",
      streaming: /"stream":\s*true/.test(text),
      text,
      open: (data, kind) => ({ protocol: "openai-responses", kind, data }),
      isEnvelope: (data) => data.startsWith("gw1."),
      recall: () => undefined,
      ...more,
    }),
  );
}

/** What a request said, as `feature path`. */
export const says = ({ uses }: { uses: readonly FeatureUse[] }): string[] =>
  uses.map(({ feature, path }) => `${feature} ${path}`);

/** A request as it is written for OpenAI, or for a model by its name, and what it lost. */
export function written(conversation: Conversation, facts: Facts = {}, model?: string, url?: URL) {
  const losses = new Losses("openai-responses", false);
  const terms: EncodeContext = {
    model: model ?? "any",
    facts: model === undefined ? { cache_marks: true, ...facts } : facts,
    ...(url && { url }),
    names: new ToolNames(),
    nested: new NestedJson(),
    drop: (path, why) => losses.drop(path, why),
    change: (path, why) => losses.change(path, why),
    refuse: (path, why) => losses.refuse(path, why),
  };
  const { body, operation } = runAtOnce(encodeRequest(conversation, terms));
  return { body: JSON.parse(body) as JsonObject, text: body, operation, losses };
}

/** A conversation of another protocol's client, as plain as can be. */
export const plain = (more: Partial<Conversation> = {}): Conversation => ({
  protocol: "other",
  task: "generate",
  stream: false,
  turns: [],
  tools: [],
  uses: [],
  ...more,
});

/** The bodies of all recorded requests, by the recording's name; none where the recordings are absent. */
export function recordedRequests(): [name: string, body: JsonObject][] {
  const folder = shared("recordings/openai-responses");
  if (!folder) return [];
  return readdirSync(folder).flatMap((name): [string, JsonObject][] => {
    const { request } = JSON.parse(readFileSync(join(folder, name), "utf8")) as { request: { body?: unknown } | null };
    const body = request?.body;
    return typeof body === "object" && body !== null ? [[name, body as JsonObject]] : [];
  });
}
