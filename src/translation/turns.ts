import type { Turn } from "./conversation.ts";

/**
 * Merges consecutive turns of the same role, for protocols whose turns must alternate or that keep a whole response in one
 * message. Parts keep their order. System turns are never merged: each stays a block of its own.
 */
export function mergeTurns(turns: readonly Turn[]): Turn[] {
  const out: Turn[] = [];
  for (const turn of turns) {
    const last = out.at(-1);
    if (last && last.role === turn.role && turn.role !== "system" && turn.role !== "developer")
      for (const part of turn.parts) last.parts.push(part);
    else out.push({ ...turn, parts: [...turn.parts] });
  }
  return out;
}
