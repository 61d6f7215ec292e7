/** The values that plugins keep for one exchange, each in its own slot. */
export type Slots = Map<object, unknown>;

interface SlotOwner {
  readonly slots: Slots;
  /** False: nothing is in them. */
  readonly hasSlots?: boolean;
}

/** The values of one slot in all exchanges. */
interface Slot<Value> {
  /** Returns the value of an exchange; created on first access. */
  (exchange: SlotOwner): Value;
  /** Returns it if it has been created. */
  existing(exchange: SlotOwner): Value | undefined;
}

/**
 * Creates a slot for a plugin's state in every exchange, freed with the exchange. Call it once: as a field of the plugin, then
 * each instance has its own slot, or at module level, then all instances share it.
 */
export function slot<Value>(make: () => Value): Slot<Value> {
  const key = {};
  const value = ({ slots }: SlotOwner): Value => {
    const known = slots.get(key);
    if (known !== undefined || slots.has(key)) return known as Value;
    const made = make();
    slots.set(key, made);
    return made;
  };
  const existing = (exchange: SlotOwner): Value | undefined =>
    exchange.hasSlots === false ? undefined : (exchange.slots.get(key) as Value | undefined);
  return Object.assign(value, { existing });
}
