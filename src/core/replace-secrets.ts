/** Characters: a shorter value is no secret, and may occur in a message with another meaning. */
const MIN_SECRET_LENGTH = 4;

/** Returns a plugin's message, which may repeat the value it refuses, with the replacements. */
export const replaceSecrets = (message: string, secrets: ReadonlyMap<string, string>): string =>
  [...secrets]
    .filter(([secret]) => secret.length >= MIN_SECRET_LENGTH)
    // Longest first: a secret may be a part of another.
    .sort(([a], [b]) => b.length - a.length)
    .reduce((text, [secret, replacement]) => text.replaceAll(secret, () => replacement), message);
