import {
  type Conversation,
  defined,
  entryOf,
  type Feature,
  type RawJson,
  type Tool,
  type ToolChoice,
} from "model-gateway/protocol";
import { type Members, spelledBoth, wrong } from "./request.members.ts";
import {
  NAME,
  type NativeRequest,
  type NativeSchema,
  type NativeTool,
  type Reading,
  remembered,
  say,
} from "./request.native.ts";
import { jsonSchema, plainSchema } from "./schema.ts";

/** Members of a tool that search the web. */
const SEARCHES = ["googleSearch", "googleSearchRetrieval"] as const;

/** Tools and the choice among them. */
export function readTools(
  request: Members,
  reading: Reading,
  native: NativeRequest,
): Pick<Conversation, "tools" | "toolChoice"> {
  const tools = (request.list("tools") ?? []).flatMap((holder, n) => {
    const read = [
      ...readFunctions(holder, n, reading),
      ...readSearches(holder, n, reading),
      ...readOthers(holder, n, reading),
    ];
    native.tools.push(holder.form());
    return read;
  });
  return { tools, ...defined({ toolChoice: readChoice(request, reading, native) }) };
}

function readFunctions(holder: Members, tool: number, reading: Reading): Tool[] {
  return (holder.list("functionDeclarations") ?? []).map((declared) => {
    say(reading, "tools", declared.at);
    const name = declared.text("name") ?? wrong(declared.path("name"), "is missing");
    const description = declared.text("description");
    const { read: parameters, schema } = readSchema(declared, "parameters", "parametersJsonSchema");
    for (const left of declared.left()) say(reading, "other", `${declared.at}.${left}`);
    const native = remembered(reading, (): NativeTool => ({ tool, form: declared.form(), ...defined({ schema }) }));
    return { kind: "function", at: declared.at, name, ...defined({ description, parameters }), ...native };
  });
}

/** A schema in either dialect, as JSON Schema, and its source where that is not the same. */
export function readSchema(
  members: Members,
  openapi: string,
  json: string,
): { read?: RawJson | undefined; schema?: NativeSchema | undefined } {
  const plain = members.raw(json);
  const source = plain ?? members.raw(openapi);
  if (!source) return {};
  const read = plain ? plainSchema(plain) : jsonSchema(source);
  return { read, schema: plain && read === plain ? undefined : { source, read } };
}

function readSearches(holder: Members, tool: number, reading: Reading): Tool[] {
  return SEARCHES.flatMap((member): Tool[] => {
    const search = holder.object(member);
    if (!search) return [];
    say(reading, "web_search", search.at);
    const blocked = search.texts("excludeDomains");
    for (const left of search.left()) say(reading, "other", `${search.at}.${left}`);
    const native = remembered(reading, (): NativeTool => ({ tool, member, form: search.form() }));
    const paths = defined({ blocked: blocked && search.path("excludeDomains") });
    return [{ kind: "web_search", at: search.at, apart: true, paths, ...defined({ blocked }), ...native }];
  });
}

/** What is left are tools that the vendor runs itself, also those that nobody knows yet. */
function readOthers(holder: Members, tool: number, reading: Reading): Tool[] {
  return holder.left().map((name): Tool => {
    const at = holder.path(name);
    say(reading, "tools_server", at);
    const native = remembered(reading, (): NativeTool => ({ tool, member: name }));
    return { kind: "server", at, protocol: NAME, name, json: holder.get(name), ...native };
  });
}

function readChoice(request: Members, reading: Reading, native: NativeRequest): ToolChoice | undefined {
  const config = request.object("toolConfig");
  if (!config) return undefined;
  const calling = config.object("functionCallingConfig");
  const choice = calling && readMode(calling, reading);
  for (const left of config.left()) say(reading, entryOf(LEFT, left) ?? "other", `${config.at}.${left}`);
  native.toolConfig = config.form();
  if (calling) native.calling = calling.form();
  if (calling?.word("mode") === "VALIDATED") native.validated = true;
  return choice;
}

/** How much is shown of what the vendor's own tools did, and how the answer is cut into pieces. */
const LEFT = spelledBoth<Feature>({
  includeServerSideToolInvocations: "cosmetic",
  streamFunctionCallArguments: "cosmetic",
});

const MODES: ReadonlySet<string> = new Set(["AUTO", "ANY", "NONE", "VALIDATED"]);

/** Between equals their vendor judges: it is told as it came. */
function unknownMode(calling: Members, { asked }: Reading): void {
  if (!asked.native) wrong(calling.path("mode"), "must be AUTO, ANY, NONE or VALIDATED");
  calling.keep("mode");
}

function readMode(calling: Members, reading: Reading): ToolChoice | undefined {
  const mode = calling.word("mode") ?? "AUTO";
  const names = calling.texts("allowedFunctionNames") ?? [];
  for (const left of calling.left())
    if (left !== "mode") say(reading, entryOf(LEFT, left) ?? "other", `${calling.at}.${left}`);
  if (!MODES.has(mode)) unknownMode(calling, reading);
  if (!calling.has("mode") && names.length === 0) return undefined;
  say(
    reading,
    names.length > 1 || (names.length === 1 && mode !== "ANY") ? "tool_choice_allowed" : "tool_choice",
    calling.at,
  );
  // Arguments by the schema: other protocols ask for that tool by tool, with conditions on the schema.
  if (mode === "VALIDATED") say(reading, "other", calling.path("mode"));
  const [only = ""] = names;
  // Names among which there is nothing to choose.
  if (mode === "NONE" || names.length === 0) calling.keep("allowedFunctionNames");
  if (mode === "NONE") return { mode: "none" };
  if (names.length === 0) return { mode: mode === "ANY" ? "required" : "auto" };
  if (mode === "ANY" && names.length === 1) return { mode: "named", name: only };
  return { mode: "allowed", required: mode === "ANY", names };
}
