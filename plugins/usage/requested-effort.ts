import type { Attempt } from "model-gateway";

/** Members with the effort itself, as in Chat, or with an object that has it, as in Responses. */
const EFFORT_MEMBERS = ["reasoning_effort", "reasoning"];
/** Bytes up to which such a member is parsed. */
const MAX_MEMBER_BYTES = 200;
/** The known efforts: any other value counts as none, as a client could make up as many as it likes. */
const EFFORT = /^(?:none|minimal|low|medium|high|xhigh|max)$/;

/**
 * Returns how hard a request asks a model to reason, in the protocols whose answers may tell nothing of it; undefined: it does not
 * say.
 */
export function requestedEffort({ body }: Pick<Attempt, "body">): string | undefined {
  for (const name of EFFORT_MEMBERS) {
    const member = body.member(name);
    if (!member || member.end - member.start > MAX_MEMBER_BYTES) continue;
    const value = body.value(name);
    const effort = member.kind === "object" ? (value as { effort?: unknown }).effort : value;
    if (typeof effort === "string" && EFFORT.test(effort)) return effort;
  }
  return undefined;
}
