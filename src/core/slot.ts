/** What plugins keep for one exchange, each in its own slot. */
export type Slots = Map<object, unknown>;

/** Gives the value that an exchange has in this slot; made when it is first asked for. */
export type Slot<Value> = (exchange: { readonly slots: Slots }) => Value;

/**
 * A place for a plugin's own state in every exchange, gone with the exchange. Made once: as a field of the plugin, then each
 * of its instances has its own, or beside the class, then they share one.
 */
export function slot<Value>(make: () => Value): Slot<Value> {
  const key = {};
  return ({ slots }) => {
    if (slots.has(key)) return slots.get(key) as Value;
    const value = make();
    slots.set(key, value);
    return value;
  };
}
