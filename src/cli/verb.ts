/** Where a verb writes, and what it may know of the process. */
export interface Terminal {
  out(line: string): void;
  err(line: string): void;
  env: NodeJS.ProcessEnv;
  /** The folder that relative paths start in. */
  folder: string;
}

/** What starts the gateway that this file is of: npm in a checkout, the installed command in a package. */
export const commandAt = (file: string): string =>
  /[\\/]node_modules[\\/]/.test(file) ? "npx model-gateway" : "npm start --";

/** What stands before a verb on the command line, for hints that can be pasted. */
export const COMMAND = commandAt(import.meta.url);
