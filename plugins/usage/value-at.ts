/** Returns the value of parsed JSON to which names of members and indices of lists lead; undefined where there is none. */
export const valueAt = (json: unknown, path: readonly (string | number)[]): unknown =>
  path.reduce<unknown>((value, name) => (value as Record<string | number, unknown> | null | undefined)?.[name], json);
