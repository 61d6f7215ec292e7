/** Why a file cannot be read or written, but for one that is missing. */
const FILE_REASONS: Readonly<Record<string, string>> = {
  EISDIR: "it is a folder",
  ENOTDIR: "a part of its path is no folder",
  EACCES: "this user may not",
  EPERM: "this user may not",
  EROFS: "the file system is read-only",
  ENOSPC: "the disk is full",
};

/** Returns why a file cannot be read or written. @param missing what is missing if something is */
export function fileProblem(thrown: unknown, missing: "file" | "folder"): string {
  const { code = "", message } = thrown as NodeJS.ErrnoException;
  return code === "ENOENT" ? `there is no such ${missing}` : (FILE_REASONS[code] ?? message);
}
