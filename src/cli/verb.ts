/** Where a verb writes, and what it may know of the process. */
export interface Terminal {
  out(line: string): void;
  err(line: string): void;
  env: NodeJS.ProcessEnv;
  /** The folder that relative paths start in. */
  folder: string;
}
