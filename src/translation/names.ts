import { createHash } from "node:crypto";
import type { ToolNameMap } from "./codec.ts";

type Original = ReturnType<ToolNameMap["original"]>;

/** Names of one request's tools as the target takes them, and the way back for its answer. */
export class ToolNames implements ToolNameMap {
  /** What a name was fitted to, by its bounds and itself. */
  private readonly fitted = new Map<string, string>();
  private readonly originals = new Map<string, string>();
  private readonly marks = new Map<string, Original>();

  fit(name: string, allowed: string, longest: number): string {
    const key = `${allowed} ${longest} ${name}`;
    const known = this.fitted.get(key);
    if (known !== undefined) return known;
    const fit = this.free(name, name.replaceAll(new RegExp(`[^${allowed}]`, "gu"), "_"), longest);
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

  /** The name itself where it fits and no other one took it; else one that ends in a hash of it. */
  private free(name: string, safe: string, longest: number): string {
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
