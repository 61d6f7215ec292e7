import { z } from "zod";

/** A name of what the file defines. @param what of what, for the error */
export const name = (what: string, pattern: RegExp) =>
  z.string().regex(pattern, {
    error: `not a name for a ${what}; write letters, digits and ${what === "model" ? ". _ - / : @ +" : ". _ -"} only`,
  });

/** An address to listen on. @param what begins its description */
export const address = (what: string) =>
  z
    .union([z.string(), z.number()], { error: "expected an address like 127.0.0.1:8080" })
    .transform(String)
    .describe(
      `${what} HOST:PORT; :PORT listens on all addresses of IPv4 and IPv6, PORT alone on 127.0.0.1. May contain $NAME.`,
    );

/** The name of a protocol. */
export const protocol = (what: string) => z.string().describe(what).meta({ extensions: "protocols" });

/** Named entries, at least one. @param what of what, for the error */
export const nonEmptyRecord = <Value extends z.ZodType>(names: z.ZodString, value: Value, what: string) =>
  z
    .record(names, value)
    .refine((entries) => Object.keys(entries).length > 0, { error: `at least one ${what} is needed` });
