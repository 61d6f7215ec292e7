/** Returns a noun for a count: `request` for 1, `requests` for all others. */
export const plural = (count: number, noun: string): string => (count === 1 ? noun : `${noun}s`);
