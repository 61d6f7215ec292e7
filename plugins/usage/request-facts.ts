import { z } from "zod";

const MS = z.number().describe("Milliseconds.");
const COUNTS = z.looseObject({ total: z.number().optional() }).describe("Tokens: the total, and its parts by kind.");

/** The response of `GET /v1/requests/{id}`: the ledger's entry, without fields for the operator only. */
export const REQUEST_RECORD = z.strictObject({
  object: z.literal("request"),
  id: z.string(),
  time: z.number().describe("Arrival in Unix milliseconds."),
  model: z.string().describe("The model that served the request; empty: none was found."),
  target: z.string().describe("The target that answered, as PROVIDER:MODEL; empty: none did."),
  protocol: z.string(),
  operation: z.string(),
  status: z.number().describe("The status that the client got; 499: it had disconnected before."),
  outcome: z.enum(["completed", "aborted", "upstream_error", "rejected", "failed", "interrupted"]),
  error: z.strictObject({ code: z.string(), message: z.string() }).optional(),
  dropped: z.array(z.string()).optional().describe("Fields that were dropped, as in the header gateway-dropped."),
  notices: z.array(z.string()).optional(),
  streaming: z.boolean(),
  attempts: z.array(
    z.strictObject({
      target: z.string(),
      status: z.number().optional(),
      error: z.string().optional(),
      message: z.string().optional(),
      startedAt: MS.describe("Milliseconds since the request's arrival."),
      queue: MS.optional(),
      connect: MS.optional(),
      took: MS.optional(),
    }),
  ),
  firstByte: MS.optional(),
  duration: MS,
  usage: z.looseObject({ in: COUNTS, out: COUNTS }).optional(),
  bytes: z.strictObject({ up: z.number(), down: z.number() }).optional(),
  source: z
    .enum(["reported", "partial", "estimated", "observed", "absorbed", "none", "free"])
    .describe("The source of the usage."),
  cost: z.number().optional().describe("Integer nano-dollars; absent when usage or price is unknown."),
  price: z.string().optional().describe("Name of the price version."),
});
