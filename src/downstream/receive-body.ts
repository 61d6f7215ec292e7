import { Body } from "../core/body.ts";
import type { BufferAccount, BufferLimits, PreemptListener } from "../core/buffer-memory.ts";
import { GatewayError } from "../core/errors.ts";
import type { Exchange } from "../core/exchange.ts";
import type { MaybePromise } from "../core/plugin.ts";
import type { Generation } from "../generation.ts";
import { formValueFinder } from "../objects/body-reference-finder.ts";
import type { ObjectReference } from "../objects/reference-finder.ts";
import type { HeaderList } from "../wire/headers.ts";
import type { FieldReader } from "../wire/multipart.ts";
import { type BodyLimits, type BodyReaderOptions, type OpenBufferAccount, readBody } from "./body.ts";
import { readForm } from "./form.ts";
import { namesOtherModels } from "./query-names.ts";
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
  const source = new BodySource(exchange, reply, parts, hasModel);
  return () => source.receive();
}

/** What an exchange's body is read with. A class, as each request has one: functions of its own would take more memory. */
class BodySource implements BodyReaderOptions {
  constructor(
    private readonly exchange: Exchange,
    private readonly reply: Pick<Reply, "request" | "sendContinue">,
    private readonly parts: Pick<Generation, "limits" | "objects" | "bodies" | "spools">,
    private readonly hasModel: boolean,
  ) {}

  get headers(): HeaderList {
    return this.exchange.headers;
  }

  openAccount(largest: number, onPreempted: PreemptListener): BufferAccount {
    return openBodyAccount(this.exchange, this.parts, largest, onPreempted);
  }

  beforeRead(): void {
    this.reply.sendContinue();
  }

  onAbort(listener: () => void): () => void {
    return this.exchange.onAbort(listener);
  }

  receive(): MaybePromise<Body> {
    const { body } = this.exchange.operation;
    if (body === "none") return Body.empty;
    return body === "json" ? readBody(this.reply.request, this.parts.limits, this) : this.receiveForm();
  }

  private receiveForm(): Promise<Body> {
    const { exchange, reply, parts } = this;
    const { limits, objects } = parts;
    // A form's length is not limited: its files stream through.
    reply.sendContinue();
    const { output, images, objects: objectMembers } = exchange.protocol;
    const counts = output?.multipliers.map(([name]) => String(name)) ?? [];
    const otherFields = images ? [...counts, ...images.tokenMembers] : counts;
    const finder = objectMembers && objects.finderFor(objectMembers);
    const whyForbidden = (field: string) => {
      if (finder?.isReferenceField(field)) return "names what is kept elsewhere: send the file itself";
      return namesOtherModels(field, exchange.protocol)
        ? "may name other models: send one model, without it"
        : undefined;
    };
    let checked = 0;
    const onBuffered = (bytes: number) => {
      checked = bytes;
    };
    const checkerOf: FieldReader["receiver"] = (name, part) =>
      !finder || objects.share === "all" || objectMembers.notSearched.includes(name)
        ? undefined
        : formValueFinder(name, part, [finder], limits.maxBytes, onBuffered, refuseReferences);
    const openSpoolAccount: OpenBufferAccount = (largest, onPreempted) => {
      const { caller, network } = exchange;
      return parts.spools.account(caller?.id ?? network, roomFor(largest, limits.spool, limits), onPreempted);
    };
    const options = {
      openAccount: this.openAccount.bind(this),
      openSpoolAccount,
      otherFields,
      whyForbidden,
      checkerOf,
      bytesInChecks: () => checked,
      addsModel: this.hasModel,
      onAbort: this.onAbort.bind(this),
    };
    return readForm(reply.request, limits, options).then(({ body, form }) => {
      exchange.form = form;
      return body;
    });
  }
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
