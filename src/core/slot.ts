/** The values that plugins keep for one exchange, each in its own slot. */
export type Slots = Map<object, unknown>;

/** Returns the value of an exchange in this slot; created on first access. */
type Slot<Value> = (exchange: { readonly slots: Slots }) => Value;

/**
 * Creates a slot for a plugin's state in every exchange, freed with the exchange. Call it once: as a field of the plugin, then
 * each instance has its own slot, or at module level, then all instances share it.
 */
export function slot<Value>(make: () => Value): Slot<Value> {
  const key = {};
  return ({ slots }) => {
    const known = slots.get(key);
    if (known !== undefined || slots.has(key)) return known as Value;
    const value = make();
    slots.set(key, value);
    return value;
  };
}
