import { Body } from "../core/body.ts";
import type { BufferAccount, BufferLimits, PreemptListener } from "../core/buffer-memory.ts";
import type { Exchange } from "../core/exchange.ts";
import type { MaybePromise } from "../core/plugin.ts";
import type { Generation } from "../generation.ts";
import { type BodyLimits, type OpenBufferAccount, readBody } from "./body.ts";
import { readForm } from "./form.ts";
import type { Reply } from "./reply.ts";

/** Returns the limits within which a single body of this many bytes fits. */
const roomFor = (
  largest: number,
  { perCaller, total }: BufferLimits,
  { patience }: Pick<BodyLimits, "patience">,
): BufferLimits => ({
  perCaller: Math.max(perCaller, largest),
  total: Math.max(total, largest),
  patience,
});

/** Reads the body of an exchange, once its caller is known. */
export type ReceiveBody = () => MaybePromise<Body>;

/**
 * Opens the account of an exchange in the memory for bodies that are being received.
 * @param largest bytes that a single body may take in any case
 * @param onPreempted as of `BufferMemory.account`
 */
export function openBodyAccount(
  exchange: Exchange,
  { limits, bodies }: Pick<Generation, "limits" | "bodies">,
  largest: number,
  onPreempted: PreemptListener,
): BufferAccount {
  const applied = roomFor(largest, limits.memory, limits);
  const account = bodies.account(exchange.caller?.id ?? exchange.network, applied, onPreempted);
  exchange.bodyMemory = account;
  return account;
}

/** Returns the function that reads the body. @param hasModel whether the path names the model */
export function createReceiveBody(
  exchange: Exchange,
  reply: Pick<Reply, "request" | "sendContinue">,
  parts: Pick<Generation, "limits" | "objects" | "bodies" | "spools">,
  hasModel: boolean,
): ReceiveBody {
  const { limits, objects } = parts;
  const { request } = reply;
  return () => {
    if (exchange.operation.body === "none") return Body.empty;
    const openAccount: OpenBufferAccount = (...options) => openBodyAccount(exchange, parts, ...options);
    const beforeRead = () => reply.sendContinue();
    const onAbort = (listener: () => void) => exchange.onAbort(listener);
    if (exchange.operation.body === "json")
      return readBody(request, limits, { headers: exchange.headers, openAccount, beforeRead, onAbort });
    // A form's length is not limited: its files stream through.
    reply.sendContinue();
    const { output, objects: objectMembers } = exchange.protocol;
    const otherFields = output?.multipliers.map(([name]) => String(name));
    const finder = objectMembers && objects.finderFor(objectMembers);
    const isForbidden = (field: string) => finder?.isReferenceField(field) ?? false;
    const openSpoolAccount: OpenBufferAccount = (largest, onPreempted) => {
      const { caller, network } = exchange;
      return parts.spools.account(caller?.id ?? network, roomFor(largest, limits.spool, limits), onPreempted);
    };
    const options = { openAccount, openSpoolAccount, otherFields, isForbidden, addsModel: hasModel, onAbort };
    return readForm(request, limits, options).then(({ body, form }) => {
      exchange.form = form;
      return body;
    });
  };
}
