import {
  type Conversation,
  defined,
  entryOf,
  type Feature,
  GatewayError,
  type IncomingRequest,
  parseExact,
  type Turn,
} from "model-gateway/protocol";
import { readContents, readInstruction } from "./request.decode.contents.ts";
import { readConfig } from "./request.decode.settings.ts";
import { readTools } from "./request.decode.tools.ts";
import { Members, snake, spelledBoth, wrong } from "./request.members.ts";
import { NAME, type NativeRequest, type Reading, say } from "./request.native.ts";

/** Objects that nobody here needs to understand; they stay the text they came as. */
const RAW: ReadonlySet<string> = new Set(
  ["args", "response", "parameters", "parametersJsonSchema", "responseSchema", "responseJsonSchema", "schema"].flatMap(
    (name) => [name, snake(name)],
  ),
);

/** Words for tiers that all protocols share. */
const TIERS: Readonly<Record<string, string>> = { STANDARD: "default", FLEX: "flex", PRIORITY: "priority" };

/** Thresholds that let everything pass, as the vendor does for those who say nothing. */
const PERMISSIVE: ReadonlySet<unknown> = new Set(["OFF", "BLOCK_NONE", "HARM_BLOCK_THRESHOLD_UNSPECIFIED"]);

/**
 * Reads a request to generate content or to count its tokens, in camel case or snake case.
 * @throws GatewayError `invalid_field` with the client's own path
 */
export function decode(asked: IncomingRequest): Conversation {
  const reading: Reading = { asked, uses: [], opened: new Set() };
  const body = Members.of(parsed(asked.text), "");
  const request = (asked.task === "count" && body.object("generateContentRequest")) || body;
  // The path names the model; here it is repeated.
  if (request !== body && !request.text("model")?.startsWith("models/")) request.keep("model");
  const native: NativeRequest = { root: request.form(), tools: [] };
  const turns: Turn[] = [...readInstruction(request, reading), ...readContents(request, reading)];
  const conversation: Conversation = {
    protocol: NAME,
    task: asked.task,
    stream: asked.streaming,
    turns,
    ...readTools(request, reading, native),
    ...readConfig(request, turns, reading, native),
    ...readRest(request, reading),
    uses: reading.uses,
  };
  for (const name of request === body ? [] : body.left()) say(reading, "other", name);
  native.root = request.form();
  if (request !== body) native.outer = body.form();
  return asked.native ? { ...conversation, native } : conversation;
}

function parsed(text: string): unknown {
  try {
    return parseExact(text, RAW);
  } catch (cause) {
    throw new GatewayError("invalid_json", { cause });
  }
}

/** The members at top level that are neither turns nor tools nor the configuration. */
function readRest(request: Members, reading: Reading): Partial<Conversation> {
  const tier = request.word("serviceTier");
  if (tier !== undefined) {
    say(reading, "tier", request.path("serviceTier"));
    request.respell("serviceTier");
  }
  const store = request.flag("store");
  if (store !== undefined) say(reading, "store", request.path("store"));
  const metadata = readLabels(request, reading);
  readSafety(request, reading);
  for (const name of request.left()) say(reading, entryOf(OTHERS, name) ?? "other", request.path(name));
  return defined({
    tier: tier === undefined ? undefined : (entryOf(TIERS, tier) ?? tier.toLowerCase()),
    store,
    metadata,
  });
}

/** What the vocabulary has no word for. */
const OTHERS = spelledBoth<Feature>({
  cachedContent: "cache_handle",
  continuationToken: "stored_state",
  modelArmorConfig: "moderation",
  safetySettings: "cosmetic",
  model: "cosmetic",
});

function readLabels(request: Members, reading: Reading): Record<string, string> | undefined {
  const labels = request.object("labels");
  if (!labels) return undefined;
  say(reading, "metadata", labels.at);
  const told = Object.entries(labels.source);
  const texts = told.filter((label): label is [string, string] => typeof label[1] === "string");
  if (told.some(([, label]) => label !== null && typeof label !== "string"))
    wrong(labels.at, "must be an object of strings");
  if (reading.asked.native && texts.length < told.length) request.keep("labels");
  return Object.fromEntries(texts);
}

/** What else makes a setting: of what, and how it is measured. */
const SETTING: ReadonlySet<string> = new Set(["category", "method"]);

/** Settings that are stricter than none. The vendor's own default is none. */
function readSafety(request: Members, reading: Reading): void {
  for (const each of request.list("safetySettings") ?? []) {
    if (!PERMISSIVE.has(each.text("threshold")?.toUpperCase())) say(reading, "safety", each.at);
    for (const name of each.left()) if (!SETTING.has(name)) say(reading, "other", `${each.at}.${name}`);
  }
  request.keep("safetySettings");
}
