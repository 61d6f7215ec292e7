import { createHash } from "node:crypto";
import type { ToolNameMap } from "./codec.ts";

type Original = ReturnType<ToolNameMap["original"]>;

/** Names of one request's tools in a form that the target accepts, and the reverse mapping for its response. */
export class ToolNames implements ToolNameMap {
  /** Fitted names, by bounds and original name. */
  private readonly fitted = new Map<string, string>();
  private readonly originals = new Map<string, string>();
  private readonly marks = new Map<string, Original>();

  sanitize(name: string, allowed: string, longest: number): string {
    const key = `${allowed} ${longest} ${name}`;
    const existing = this.fitted.get(key);
    if (existing !== undefined) return existing;
    const fittedName = this.uniqueName(name, name.replaceAll(new RegExp(`[^${allowed}]`, "gu"), "_"), longest);
    this.fitted.set(key, fittedName);
    this.originals.set(fittedName, name);
    return fittedName;
  }

  restore(name: string): string {
    return this.originals.get(name) ?? name;
  }

  mark(fitted: string, original: Original): void {
    this.marks.set(fitted, original);
  }

  original(fitted: string): Original {
    return this.marks.get(fitted) ?? { name: this.restore(fitted) };
  }

  /** Returns the name itself where it fits and is not taken; otherwise one that ends in a hash of it. */
  private uniqueName(name: string, safe: string, longest: number): string {
    const isTaken = (candidate: string) => (this.originals.get(candidate) ?? name) !== name;
    if (safe === name && name !== "" && name.length <= longest && !isTaken(name)) return name;
    for (let salt = ""; ; salt += "+") {
      const hash = createHash("sha256")
        .update(name + salt)
        .digest("hex")
        .slice(0, Math.min(8, longest));
      const candidate = `${safe.slice(0, Math.max(0, longest - hash.length - 1))}_${hash}`.slice(-longest);
      if (!isTaken(candidate)) return candidate;
    }
  }
}
