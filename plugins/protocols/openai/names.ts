import type { ToolNameMap } from "model-gateway/protocol";

/** What the vendor takes as a tool's name. [S] */
const CHARACTERS = "a-zA-Z0-9_-";
const LONGEST = 64;

/** A tool's name as the vendor takes it. */
export const fitName = (name: string, names: ToolNameMap): string => names.fit(name, CHARACTERS, LONGEST);
