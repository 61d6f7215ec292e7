// Runs a verb whose arguments are read as a JSON array from standard input: those on a command line are visible to all users of
// the machine (ps), and these may contain a key or a conversation.
import { readFileSync } from "node:fs";

process.argv.push(...(JSON.parse(readFileSync(0, "utf8")) as string[]));
await import("../main.ts");
