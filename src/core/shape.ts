/** The members of a type, in the order in which its objects have them. */
export type Shape<T> = { readonly [Name in keyof Required<T>]: true };

/**
 * Returns a copy with all members of its type in one order, missing ones undefined. Used for objects that every request reads:
 * V8 reads objects of one shape fastest, and code compiled for one of them stays valid for all, whatever each operator has
 * written in gateway.yaml.
 */
export function withShape<T extends object>(shape: Shape<T>, object: T): T {
  const made: Partial<T> = {};
  for (const name in shape) made[name as keyof T] = object[name as keyof T];
  return made as T;
}
