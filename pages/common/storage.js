/** Texts that a browser keeps: in `localStorage`, or for a tab in `sessionStorage`. Where it denies them it keeps nothing. */

/** Returns a kept text; null: there is none. */
export function kept(storage, name) {
  try {
    return globalThis[storage].getItem(name);
  } catch {
    return null;
  }
}

/** Keeps a text; null removes it. */
export function keep(storage, name, text) {
  try {
    if (text === null) globalThis[storage].removeItem(name);
    else globalThis[storage].setItem(name, text);
  } catch {
    // Denied.
  }
}
