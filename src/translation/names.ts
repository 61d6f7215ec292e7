import { createHash } from "node:crypto";
import { dropUndefined } from "../wire/values.ts";
import type { FittedMembers, ToolNameMap } from "./codec.ts";
import type { Tool } from "./conversation.ts";

type Original = ReturnType<ToolNameMap["original"]>;

/** Names of one request's tools in a form that the target accepts, and the reverse mapping for its response. */
export class ToolNames implements ToolNameMap {
  /** Fitted names, by bounds and original name. */
  private readonly fitted = new Map<string, string>();
  private readonly originals = new Map<string, string>();
  /** Tools of which the name alone does not tell all, by fitted name. */
  private readonly tools = new Map<string, Original>();
  /** Names of arguments that differ at the target, by tool. */
  private readonly members = new Map<string, FittedMembers>();
  /** The namespace of the tool that has a full name (`namespace__name`); undefined: it has none, and is called so. */
  private readonly namespaces = new Map<string, string | undefined>();

  /** @param tools the request's: where two would have one name, their order decides, whatever is called before the request */
  constructor(tools: readonly Tool[] = []) {
    if (!tools.some(isInNamespace)) return;
    for (const tool of tools) if ("name" in tool && !isInNamespace(tool)) this.namespaces.set(tool.name, undefined);
    for (const tool of tools) if ("name" in tool) this.qualify(tool);
  }

  fitTool(tool: Parameters<ToolNameMap["fitTool"]>[0], allowed: string, longest: number, prefix = ""): string {
    const { name, namespace, kind, custom = kind === "custom" } = tool;
    const fullName = prefix + this.qualify(tool);
    const fitted = this.fit(fullName, allowed, longest);
    if (fullName !== name || custom)
      this.tools.set(fitted, { name, ...dropUndefined({ namespace, custom: custom || undefined }) });
    return fitted;
  }

  original(fitted: string): Original {
    return this.tools.get(fitted) ?? { name: this.originals.get(fitted) ?? fitted };
  }

  /** Returns a tool's name with its namespace before it: another one than that of every other tool of the request. */
  private qualify({ name, namespace }: { name: string; namespace?: string | undefined }): string {
    if (namespace === undefined) return name;
    const full = `${namespace}__${name}`;
    if (!this.namespaces.has(full)) this.namespaces.set(full, namespace);
    return this.namespaces.get(full) === namespace ? full : `${full}_${hashOf(namespace)}`;
  }

  private fit(name: string, allowed: string, longest: number): string {
    const key = `${allowed} ${longest} ${name}`;
    const existing = this.fitted.get(key);
    if (existing !== undefined) return existing;
    const fittedName = this.uniqueName(name, name.replaceAll(new RegExp(`[^${allowed}]`, "gu"), "_"), longest);
    this.fitted.set(key, fittedName);
    this.originals.set(fittedName, name);
    return fittedName;
  }

  fitMembers(tool: string, members: readonly string[], allowed: string, longest: number): FittedMembers | undefined {
    const fits = new RegExp(`^[${allowed}]{1,${longest}}$`);
    if (members.every((member) => fits.test(member))) return undefined;
    const taken = new Set(members);
    const fitted = new Map<string, string>();
    const own = new Map<string, string>();
    for (const member of members) {
      if (fits.test(member)) continue;
      // Without a hash where possible: the tool's description may speak of `$top`, and the model then knows `_top`.
      const safe = member.replaceAll(new RegExp(`[^${allowed}]`, "gu"), "_");
      const isFree = safe !== "" && safe.length <= longest && !taken.has(safe);
      const name = isFree ? safe : hashedName(member, safe, longest, (candidate) => taken.has(candidate));
      taken.add(name);
      fitted.set(member, name);
      own.set(name, member);
    }
    this.members.set(tool, { fitted, own });
    return { fitted, own };
  }

  membersOf(tool: string): FittedMembers | undefined {
    return this.members.get(tool);
  }

  /** Returns the name itself where it fits and is not taken; otherwise one that ends in a hash of it. */
  private uniqueName(name: string, safe: string, longest: number): string {
    const isTaken = (candidate: string) => (this.originals.get(candidate) ?? name) !== name;
    if (safe === name && name !== "" && name.length <= longest && !isTaken(name)) return name;
    return hashedName(name, safe, longest, isTaken);
  }
}

/** Returns a name that is not taken and ends in a hash of the original one. */
function hashedName(name: string, safe: string, longest: number, isTaken: (candidate: string) => boolean): string {
  for (let salt = ""; ; salt += "+") {
    const hash = hashOf(name + salt).slice(0, longest);
    const candidate = `${safe.slice(0, Math.max(0, longest - hash.length - 1))}_${hash}`.slice(-longest);
    if (!isTaken(candidate)) return candidate;
  }
}

const hashOf = (text: string): string => createHash("sha256").update(text).digest("hex").slice(0, 8);
const isInNamespace = (tool: Tool): boolean => "namespace" in tool && tool.namespace !== undefined;
