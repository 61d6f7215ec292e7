import { z } from "zod";
import { thrownMessage } from "../core/errors.ts";
import { Networks } from "../core/networks.ts";
import {
  parseCount,
  parseDate,
  parseDuration,
  parseLimit,
  parseMoney,
  parsePercent,
  parsePeriod,
  parseSize,
} from "./units.ts";

// Quantities of gateway.yaml, as schema fields.

/** Returns a quantity with its unit, parsed by one of units.ts. */
export const quantity = <T>(read: (written: string | number) => T, forms: string) =>
  z
    .union([z.string(), z.number()], { error: `expected a text like ${forms}` })
    .transform((written, reading) => parseOrIssue(() => read(written), written, reading))
    .describe(`Like ${forms}.`);

/** Returns the parsed value; adds an error thrown by the parser to the schema's issues. */
export function parseOrIssue<T>(read: () => T, input: unknown, reading: z.core.ParsePayload): T {
  try {
    return read();
  } catch (thrown) {
    reading.issues.push({ code: "custom", message: thrownMessage(thrown), input });
    return z.NEVER;
  }
}

/** A time in milliseconds; off is 0. */
export const milliseconds = quantity(parseDuration, "90s, 500ms, 5m, 1h or off");
/** A time that must not be off. */
export const period = quantity(parsePeriod, "90s, 500ms, 5m or 1h");
/** A share from 0 to 1; off is 0. */
export const percent = quantity(parsePercent, "20% or off");
/** A whole number from 1 on. */
export const positiveInteger = z
  .number()
  .int({ error: "expected a whole number" })
  .min(1, { error: "must be 1 or more" });
/** A number of bytes. */
export const size = quantity(parseSize, "64MiB, 1MB or 512KiB");
/** A number, of tokens or others. */
export const tokens = quantity(parseCount, "300, 400_000, 128k or 1M");
const SUMS = "$50/month, $15/week, $10/day, $1/hour or $100 (in total)";
const sum = quantity(parseMoney, SUMS);
const sumOrWarning = z
  .strictObject({
    amount: sum,
    soft: z.boolean().default(false).describe("True: the budget warns when it is nearly spent, and refuses nothing."),
  })
  .describe("A sum, and whether it only warns.");
const sumOrOff = quantity((written) => (written === "off" ? [] : [parseMoney(written)]), `${SUMS}, or off`);
/** Budgets, each sum in nano-dollars with its period; off is none. */
export const budget = z
  .union([z.array(z.union([sumOrWarning, sum])), sumOrWarning, sumOrOff], {
    error: `expected a sum like $50/month, or a list of them`,
  })
  .meta({ id: "budget" })
  .describe("Budget: a sum, { amount: $50/month, soft: true } for one that only warns, a list of these, or off.");
/** A limit; off is 0: unlimited. */
export const limitOrOff = quantity(parseLimit, "300, 128k or off");
/** A date or time, in Unix milliseconds. */
export const date = z
  .string()
  .transform((written, reading) => parseOrIssue(() => parseDate(written), written, reading))
  .describe("A date or a date with time: 2026-12-31 or 2026-12-31T18:00:00Z.");

/** An address or range, as it is written. */
export const network = z
  .string()
  .transform((written, reading) => parseOrIssue(() => new Networks([written]) && written, written, reading))
  .describe("An address or a range: 127.0.0.1, 10.0.0.0/8 or fd00::/8.");
