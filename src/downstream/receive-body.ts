import { Body } from "../core/body.ts";
import { type BufferAccount, type BufferLimits, type PreemptListener, UNCOUNTED_BYTES } from "../core/buffer-memory.ts";
import { GatewayError } from "../core/errors.ts";
import type { Exchange } from "../core/exchange.ts";
import type { MaybePromise } from "../core/plugin.ts";
import type { Generation } from "../generation.ts";
import { formValueFinder } from "../objects/body-reference-finder.ts";
import type { ObjectReference } from "../objects/reference-finder.ts";
import type { FieldReader } from "../wire/multipart.ts";
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
    const { output, images, objects: objectMembers } = exchange.protocol;
    const counts = output?.multipliers.map(([name]) => String(name)) ?? [];
    const otherFields = images ? [...counts, images.sizeMember, images.qualityMember] : counts;
    const finder = objectMembers && objects.finderFor(objectMembers);
    const isForbidden = (field: string) => finder?.isReferenceField(field) ?? false;
    const checkerOf: FieldReader["receiver"] = (name, part) =>
      !finder || objects.share === "all" || objectMembers.notSearched.includes(name)
        ? undefined
        : formValueFinder(name, part, [finder], UNCOUNTED_BYTES, () => {}, refuseReferences);
    const openSpoolAccount: OpenBufferAccount = (largest, onPreempted) => {
      const { caller, network } = exchange;
      return parts.spools.account(caller?.id ?? network, roomFor(largest, limits.spool, limits), onPreempted);
    };
    const options = {
      openAccount,
      openSpoolAccount,
      otherFields,
      isForbidden,
      checkerOf,
      addsModel: hasModel,
      onAbort,
    };
    return readForm(request, limits, options).then(({ body, form }) => {
      exchange.form = form;
      return body;
    });
  };
}

/** @throws GatewayError `invalid_field` for JSON in a form's field that names an object: some vendors read it there */
function refuseReferences([first]: readonly ObjectReference[]): void {
  if (!first) return;
  const { param = "" } = first;
  throw new GatewayError("invalid_field", {
    message: `The field ${param} names what is kept elsewhere: send the file itself.`,
    param,
  });
}
