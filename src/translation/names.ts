import { createHash } from "node:crypto";
import type { ToolNameMap } from "./codec.ts";

type Original = ReturnType<ToolNameMap["original"]>;

/** Names of one request's tools in a form that the target accepts, and the reverse mapping for its response. */
export class ToolNames implements ToolNameMap {
  /** Fitted names, by bounds and original name. */
  private readonly fitted = new Map<string, string>();
  private readonly originals = new Map<string, string>();
  private readonly marks = new Map<string, Original>();

  fit(name: string, allowed: string, longest: number): string {
    const key = `${allowed} ${longest} ${name}`;
    const known = this.fitted.get(key);
    if (known !== undefined) return known;
    const fit = this.uniqueName(name, name.replaceAll(new RegExp(`[^${allowed}]`, "gu"), "_"), longest);
    this.fitted.set(key, fit);
    this.originals.set(fit, name);
    return fit;
  }

  back(name: string): string {
    return this.originals.get(name) ?? name;
  }

  mark(fitted: string, original: Original): void {
    this.marks.set(fitted, original);
  }

  original(fitted: string): Original {
    return this.marks.get(fitted) ?? { name: this.back(fitted) };
  }

  /** Returns the name itself where it fits and is not taken; otherwise one that ends in a hash of it. */
  private uniqueName(name: string, safe: string, longest: number): string {
    const taken = (fit: string) => (this.originals.get(fit) ?? name) !== name;
    if (safe === name && name !== "" && name.length <= longest && !taken(name)) return name;
    for (let salt = ""; ; salt += "+") {
      const hash = createHash("sha256")
        .update(name + salt)
        .digest("hex")
        .slice(0, Math.min(8, longest));
      const fit = `${safe.slice(0, Math.max(0, longest - hash.length - 1))}_${hash}`.slice(-longest);
      if (!taken(fit)) return fit;
    }
  }
}
