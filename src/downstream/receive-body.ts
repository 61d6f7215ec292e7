import type { IncomingMessage, ServerResponse } from "node:http";
import { Body } from "../core/body.ts";
import type { BufferAccount, PreemptListener } from "../core/buffer-memory.ts";
import type { Exchange } from "../core/exchange.ts";
import type { Generation } from "../generation.ts";
import { type OpenBufferAccount, readBody } from "./body.ts";
import { readForm } from "./form.ts";

/** Reads the body of an exchange, once its caller is known. */
export type ReceiveBody = () => Body | Promise<Body>;

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
  const { perCaller, total } = limits.memory;
  const applied = {
    perCaller: Math.max(perCaller, largest),
    total: Math.max(total, largest),
    patience: limits.patience,
  };
  const account = bodies.account(exchange.caller?.id ?? exchange.network, applied, onPreempted);
  exchange.bodyMemory = account;
  return account;
}

/**
 * Returns the function that reads the body.
 * @param expectsContinue the client waits for `100 Continue` before it sends the body
 */
export function createReceiveBody(
  exchange: Exchange,
  request: IncomingMessage,
  response: ServerResponse,
  parts: Pick<Generation, "limits" | "objects" | "bodies">,
  expectsContinue: boolean,
): ReceiveBody {
  const { limits, objects } = parts;
  return () => {
    if (exchange.operation.body === "none") return Body.empty;
    const openAccount: OpenBufferAccount = (...options) => openBodyAccount(exchange, parts, ...options);
    const sendContinue = expectsContinue ? () => response.writeContinue() : undefined;
    if (exchange.operation.body === "json")
      return readBody(request, limits, {
        json: true,
        headers: exchange.headers,
        openAccount,
        beforeRead: sendContinue,
      });
    // A form's length is not limited: its files stream through.
    sendContinue?.();
    const { output, objects: objectMembers } = exchange.protocol;
    const otherFields = output?.multipliers.map(([name]) => String(name));
    const finder = objectMembers && objects.finderFor(objectMembers);
    const isForbidden = (field: string) => finder?.isReferenceField(field) ?? false;
    return readForm(request, limits, { openAccount, otherFields, isForbidden }).then(({ body, form }) => {
      exchange.form = form;
      return body;
    });
  };
}
