import { anyCasePattern, ESCAPED_LETTER, foldCase } from "../wire/any-case.ts";
import { COLON, OPEN_ARRAY, QUOTE, SPACE } from "../wire/grammar.ts";
import { type JsonPath, pathEdits } from "../wire/paths.ts";
import type { Edit } from "../wire/splice.ts";
import { asList, type JsonObject } from "../wire/values.ts";
import { caseSpellings, Watch } from "../wire/watch.ts";
import type { Body } from "./body.ts";
import { GatewayError } from "./errors.ts";
import type { OtherModelMembers, Protocol } from "./protocol.ts";

/** A model that a request names besides the requested one. */
export interface OtherModel {
  readonly name: string;
  /** The prefix in front of it. */
  readonly prefix: string;
  /** Its path: `["tools", 0, "model"]`. */
  readonly path: JsonPath;
  /** Set if the vendor chooses the model: `name` is not that of a model. */
  readonly unnamed?: true;
}

/** Maximum models in one request; vendors accept at most some hundreds of requests in one. */
const MAX_OTHER_MODELS = 1000;
/** Members that name a model or a list of models. */
const MEMBERS = ["model", "judge_model", "answering_model", "reasoning_model", "analysis_models", "models"];
const WATCH = new Watch(MEMBERS.flatMap(caseSpellings));
const NAMES = MEMBERS.map((name) => Buffer.from(`"${name}"`));
/** A name in another case: some servers, mostly written in Go, read names case-insensitively. */
const SPELLED = new RegExp(MEMBERS.map((name) => `"(?!${name}")${anyCasePattern(name)}"`).join("|"));
const ESCAPE = Buffer.from("\\u");

/**
 * Returns the models that a body names besides the requested one, where the protocol says that there may be any.
 * @param everywhere searches also places used only to hide a name, which takes time proportional to the body's size
 * @throws GatewayError `invalid_json` where two parsers could read different names; `invalid_field` for too many
 */
export function findOtherModels(body: Body, { otherModels: members }: Protocol, everywhere: boolean): OtherModel[] {
  if (!members || !body.scan) return [];
  const { topLevel = [], searched, containers = [], vendorChoice = [] } = members;
  const finder = new OtherModelFinder(members);
  for (const name of topLevel) {
    const kind = body.member(name)?.kind;
    if (kind === "string") finder.add(String(body.value(name)), [name]);
    if (kind === "array") finder.addAll(body.uniqueValue(name), [name]);
  }
  for (const name of vendorChoice)
    if (body.member(name)?.kind === "string") finder.addUnnamed([name], String(body.value(name)));
  const mayName = WATCH.mayMatch(body.scan);
  const choosing = everywhere ? finder.choosingTools : [];
  if (!mayName && choosing.length === 0) return finder.found;
  for (const name of everywhere ? [...searched, ...containers] : searched) {
    const member = body.member(name);
    if (member?.kind !== "array" && member?.kind !== "object") continue;
    const json = body.slice(member.start, member.end);
    const mayChoose =
      choosing.length > 0 && (json.includes(ESCAPE) || choosing.some((each) => json.includes(`"${each}"`)));
    if (!mayChoose && !(mayName && mayNameModel(json, everywhere))) continue;
    finder.search(body.uniqueValue(name), [name], searched.includes(name));
  }
  return finder.found;
}

/** Returns the edits that replace such model names; an unchanged name needs no edit. */
export function otherModelEdits(body: Body, models: readonly OtherModel[], map: (model: OtherModel) => string): Edit[] {
  const changes = models.flatMap((model) => {
    if (model.unnamed) return [];
    const name = map(model);
    return name === model.name ? [] : [[model.path, JSON.stringify(model.prefix + name)] as const];
  });
  return changes.length === 0 ? [] : pathEdits(body.bytes(), { replace: changes });
}

/** Reports whether a text may contain such a member with a string or a list: most occurrences are schemas. */
function mayNameModel(json: Buffer, hidden: boolean): boolean {
  for (const name of NAMES)
    for (let at = json.indexOf(name); at >= 0; at = json.indexOf(name, at)) {
      at = skipSpace(json, at + name.length);
      const value = json[at] === COLON ? json[skipSpace(json, at + 1)] : undefined;
      if (value === QUOTE || value === OPEN_ARRAY) return true;
    }
  if (!hidden) return false;
  const text = json.toString("latin1");
  return SPELLED.test(text) || (json.includes(ESCAPE) && ESCAPED_LETTER.test(text));
}

function skipSpace(json: Buffer, from: number): number {
  let at = from;
  while ((json[at] as number) <= SPACE) at++;
  return at;
}

/** Collects the models that parsed members of a request name. */
class OtherModelFinder {
  readonly found: OtherModel[] = [];

  constructor(private readonly members: OtherModelMembers) {}

  /** Tools for which the vendor chooses a model, always or where none is named. */
  get choosingTools(): readonly string[] {
    const { choosingTools = [], defaultModelTools = [] } = this.members;
    return [...choosingTools, ...defaultModelTools];
  }

  /** @throws GatewayError `invalid_field` for more models than are looked up */
  add(text: string, path: JsonPath): void {
    const { prefix: usual } = this.members;
    if (this.found.length === MAX_OTHER_MODELS) throw tooManyModels(path.slice(0, -1));
    const prefix = usual !== undefined && text.startsWith(usual) ? usual : "";
    this.found.push({ name: text.slice(prefix.length), prefix, path });
  }

  addAll(list: unknown, path: JsonPath): void {
    for (const [i, each] of asList(list).entries()) if (typeof each === "string") this.add(each, [...path, i]);
  }

  /** Adds a model of the vendor's choice. */
  addUnnamed(path: JsonPath, name = ""): void {
    this.found.push({ name, prefix: "", path, unnamed: true });
  }

  /** @param counts whether a model named here will be used */
  search(value: unknown, path: JsonPath, counts: boolean): void {
    if (typeof value !== "object" || value === null) return;
    if (Array.isArray(value)) {
      for (const [i, each] of value.entries()) this.search(each, [...path, i], counts);
      return;
    }
    const { vendorChoice, notSearched } = this.members;
    const before = this.found.length;
    for (const [name, inner] of Object.entries(value)) {
      const at = [...path, name];
      if (counts && typeof inner === "string" && vendorChoice?.includes(foldCase(name))) this.addUnnamed(at, inner);
      if (counts && MEMBERS.includes(foldCase(name))) {
        if (typeof inner === "string") this.add(inner, at);
        this.addAll(inner, at);
      }
      if (!notSearched.includes(name)) this.search(inner, at, counts || this.isSearched(name));
    }
    if (counts && this.choosesModel(value as JsonObject, this.found.length > before)) this.addUnnamed(path);
  }

  /** Reports whether a tool runs a model of the vendor's choice. @param named whether it names one, in whatever member */
  private choosesModel({ type, id, model }: JsonObject, named: boolean): boolean {
    const { choosingTools = [], defaultModelTools = [] } = this.members;
    const chooses = (kind: string) =>
      (!named && choosingTools.includes(kind)) || (typeof model !== "string" && defaultModelTools.includes(kind));
    return [type, id].some((kind) => typeof kind === "string" && chooses(kind));
  }

  /** Reports whether a member is one of `searched`, ignoring case. */
  private isSearched(name: string): boolean {
    const { searched } = this.members;
    return searched.includes(name) || searched.some((each) => foldCase(each) === foldCase(name));
  }
}

const tooManyModels = (path: JsonPath): GatewayError =>
  new GatewayError("invalid_field", {
    message: `The request names more than ${MAX_OTHER_MODELS} models.`,
    hint: "Ask with fewer at a time.",
    param: path.join("."),
  });
