import type { ClientRequest, IncomingHttpHeaders, IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { type Duplex, Readable } from "node:stream";
import { Receiver } from "ws";
import { GatewayError } from "../core/errors.ts";
import type { Redactor } from "../core/redactor.ts";
import { failure, overdue, type Progress } from "./failures.ts";
import { cleanClose, closeFrame, FrameHeads, textFrame } from "./frame-heads.ts";
import { forwarderRefusal, tunnelFailure } from "./http1/tunnel.ts";
import { closeSoon, type PassRequest, whenConnected } from "./pass.ts";
import { errorBody, forwarderOf } from "./passed-error.ts";

/** Milliseconds for the provider's answer to a handshake, at most. */
const HANDSHAKE = 30_000;
/** Milliseconds for a close frame of ours to be answered, and for the end of a frame of theirs before it. */
const CLOSING = 200;
const FRAME_END = 2000;

/** Close codes (RFC 6455 §7.4.1). */
const GOING_AWAY = 1001;
const ABNORMAL = 1006;
const POLICY = 1008;
const TOO_BIG = 1009;
const RESTART = 1012;

/** A handshake as it came. */
export interface Handshake {
  readonly request: IncomingMessage;
  /** Has an error listener: node has taken its own away. */
  readonly socket: Socket;
  /** What came behind the handshake in the same packet. */
  readonly head: Buffer;
  /** Its Sec-WebSocket-Key. */
  readonly key: string;
  /** What it offers in Sec-WebSocket-Protocol, without what only the gateway may see. */
  readonly protocols: readonly string[];
  /** The entry that is taken as chosen when the provider chooses none. */
  readonly chosen: string | undefined;
}

/** How large and how silent a WebSocket may be. */
export interface SocketLimits {
  /** Milliseconds without a byte in either direction; 0: no end. */
  readonly idle: number;
  /** Bytes of a message. */
  readonly message: number;
}

/** Hears of what passes. */
export interface SocketObserver {
  /** Before the provider's answer goes down: answers its headers that do, besides those of the handshake. */
  head(status: number, rawHeaders: readonly string[]): IncomingHttpHeaders;
  up(bytes: Buffer): void;
  down(bytes: Buffer): void;
  /** The handshake was refused: all that the provider says, before it goes down. */
  failed(body: Buffer): void;
  /** A message of the client, before the provider has its last bytes; the answer is why it goes no further. Absent: all do. */
  judge?: ((message: Buffer) => GatewayError | undefined) | undefined;
  /** A text message of the provider. Absent: nobody reads them. */
  text?: ((message: Buffer) => void) | undefined;
  /** What cleans errors, and the reasons of close frames. */
  readonly redactor: Redactor;
  /** The gateway breaks it off itself: `onInterrupt` tells. */
  interrupt(error: GatewayError): void;
  /** The handshake has failed, and no answer has been written: it must be, in this very call. */
  refuse(error: GatewayError): void;
  /**
   * Runs `act` when the gateway breaks it off; the answer takes it back. `message` is what the client is told on an open
   * socket, in its protocol's words; undefined: there are none.
   */
  onInterrupt(act: (error: GatewayError, message: string | undefined) => void): () => void;
}

/** How a WebSocket ended. */
export interface SocketEnd {
  /** Of the first close frame; 1006 where there was none; undefined: it was never open. */
  readonly code: number | undefined;
  /** Who was first to go without a close frame; `gateway`: it stops, and has sent one itself. */
  readonly died: "client" | "provider" | "gateway" | undefined;
}

/**
 * One WebSocket that http-proxy-3's `ws()` carries, and what that leaves open: limits, deaths that it does not hear of, a
 * close frame of our own between two of theirs, and one end, told once. What is done to the provider's answer here is done
 * in front of the library's own listeners, which write what they find.
 */
export class SocketRelay {
  private readonly end = Promise.withResolvers<SocketEnd>();
  private readonly up = new FrameHeads();
  private readonly down = new FrameHeads();
  private asking: ClientRequest | undefined;
  private upstream: Duplex | undefined;
  private progress: Progress = "connecting";
  private answered = false;
  /** The code of our own close frame, once there is to be one. */
  private closing: number | undefined;
  /** What stands in front of it, and in it. */
  private lastWords: { message: string | undefined; reason: string } | undefined;
  private closed = false;
  private died: SocketEnd["died"];
  private receiver: Receiver | undefined;
  /** Reads the client's messages, where somebody judges them, until one is refused or is the last. */
  private judging: Receiver | undefined;
  private refusal: GatewayError | undefined;
  private concluded = false;
  /** What has come of the provider's close frame. */
  private farewell: Buffer | undefined;

  constructor(
    private readonly handshake: Handshake,
    private readonly outgoing: PassRequest,
    private readonly limits: SocketLimits,
    private readonly observer: SocketObserver,
  ) {}

  /** Settles when the connection of the client is closed; never rejects. @param send gives it to the library */
  run(send: (relay: SocketRelay) => void): Promise<SocketEnd> {
    const { request, socket, key, protocols } = this.handshake;
    request.headers = {
      connection: "Upgrade",
      upgrade: "websocket",
      "sec-websocket-version": "13",
      "sec-websocket-key": key,
      // No extensions: their frames could not be read.
      ...(protocols.length > 0 ? { "sec-websocket-protocol": protocols.join(", ") } : {}),
    };
    socket.once("close", () => {
      const code = this.upstream && (this.closing ?? this.down.closeCode ?? this.up.closeCode ?? ABNORMAL);
      const gone = code === ABNORMAL ? (this.died ?? "client") : undefined;
      unsubscribe();
      this.end.resolve({ code, died: this.closing === RESTART ? "gateway" : gone });
    });
    const unsubscribe = this.observer.onInterrupt((error, message) => this.interrupt(error, message));
    try {
      send(this);
    } catch (thrown) {
      this.refuse(GatewayError.from(thrown));
    }
    return this.end.promise;
  }

  /** The library is about to ask. */
  sending(upstream: ClientRequest): void {
    this.asking = upstream;
    const { socket } = this.handshake;
    const { timeouts, target } = this.outgoing;
    const { connect, first_byte } = timeouts;
    const connecting =
      connect > 0 ? setTimeout(() => this.refuse(overdue("connect", connect, target.host)), connect) : 0;
    const limit = first_byte > 0 ? Math.min(first_byte, HANDSHAKE) : HANDSHAKE;
    const timer = setTimeout(() => this.refuse(overdue("first_byte", limit, target.host)), limit);
    whenConnected(upstream, () => {
      this.progress = "waiting";
      clearTimeout(connecting);
    });
    // The library lets an unanswered handshake live on.
    socket.once("close", () => {
      clearTimeout(connecting);
      clearTimeout(timer);
      upstream.destroy();
    });
    // Nobody reads the client's side until the answer, so that its end would not be heard: looks without taking bytes.
    const listen = () => {
      if (socket.readableLength === 0) socket.read();
    };
    socket.on("readable", listen).once("end", () => closeSoon(socket));
    // Behind the library's listener, which would pass on whatever comes: it is called here, for what may be.
    process.nextTick(() => {
      const library = upstream.listeners("response");
      upstream.removeAllListeners("response").once("response", (answer: IncomingMessage) => {
        this.declined(answer, (told) => {
          clearTimeout(timer);
          for (const listener of library) listener(told);
        });
      });
    });
    upstream.once("upgrade", (answer, other) => {
      clearTimeout(timer);
      // A pipe does not flow beside such a listener.
      socket.off("readable", listen);
      this.accepted(answer, other);
    });
  }

  /** What the library reports, of which there may be several for one handshake. */
  failed(thrown: Error): void {
    const { target, proxy } = this.outgoing;
    this.refuse(failure(tunnelFailure(proxy, thrown), this.progress, target.host));
  }

  /** Ends an open socket with a close frame of ours to both sides, as soon as one may stand there. */
  close(code = RESTART): void {
    const { upstream } = this;
    if (this.closing !== undefined) return;
    if (!upstream) {
      this.refuse(new GatewayError("draining"));
      return;
    }
    this.closing = code;
    const { socket } = this.handshake;
    // From here on the provider's bytes pass by hand, up to the end of a frame.
    upstream.unpipe(socket).resume();
    this.sayClose();
    const timer = setTimeout(() => {
      socket.destroy();
      upstream.destroy();
    }, FRAME_END);
    socket.once("close", () => clearTimeout(timer));
  }

  /** Ends it for a reason that is told. */
  private interrupt(error: GatewayError, message: string | undefined): void {
    if (this.closing !== undefined) return;
    this.lastWords = { message, reason: error.code };
    if (this.upstream) this.close(POLICY);
    else this.refuse(error);
  }

  private refuse(error: GatewayError): void {
    if (this.answered) return;
    this.answered = true;
    this.observer.refuse(error);
    this.asking?.destroy();
  }

  /** The provider answers with HTTP. @param pass hands all of it to the library once it has come, to pass it on and to close */
  private declined(answer: IncomingMessage, pass: (told: Readable) => void): void {
    const { observer } = this;
    const { target } = this.outgoing;
    const { statusCode: came = 0 } = answer;
    const refused = forwarderRefusal(forwarderOf(this.outgoing), came);
    if (refused) this.refuse(failure(refused, this.progress, target.host));
    if (this.answered) {
      answer.destroy();
      return;
    }
    // Only a refusal answers a handshake: anything else would look like one of ours.
    const status = came < 400 || came > 599 ? 502 : came;
    this.progress = "answering";
    errorBody(answer, status, this.outgoing, observer.redactor).then(
      (body) => {
        if (this.answered) return;
        this.answered = true;
        const { "content-encoding": _, ...headers } = observer.head(status, answer.rawHeaders);
        observer.failed(body);
        observer.down(body);
        const length = { "content-length": String(body.length), connection: "close" };
        pass(
          Object.assign(Readable.from([body]), {
            statusCode: status,
            statusMessage: "",
            headers: { ...headers, ...length },
          }),
        );
      },
      (error) => this.refuse(GatewayError.from(error, "upstream_invalid")),
    );
  }

  private accepted(answer: IncomingMessage, upstream: Duplex): void {
    const { socket, chosen } = this.handshake;
    if (this.answered) {
      upstream.destroy();
      return;
    }
    this.answered = true;
    this.upstream = upstream;
    const { "sec-websocket-accept": accept, "sec-websocket-protocol": protocol = chosen } = answer.headers;
    answer.headers = { ...this.observer.head(101, answer.rawHeaders), connection: "Upgrade", upgrade: "websocket" };
    if (accept !== undefined) answer.headers["sec-websocket-accept"] = accept;
    // Clients end a handshake that takes up nothing they offered.
    if (protocol !== undefined) answer.headers["sec-websocket-protocol"] = protocol;
    if (this.observer.text) this.receiver = this.reading(this.observer.text);
    if (this.observer.judge) this.judging = this.judged(this.observer.judge);
    // Not before the library has its pipes: what came in the provider's first packet would reach these listeners alone.
    process.nextTick(() => {
      // By hand: the words of a close frame are the provider's, and may have to be changed.
      upstream.unpipe(socket).on("data", (bytes: Buffer) => this.fromProvider(bytes));
      upstream.resume();
      socket.on("drain", () => upstream.resume());
      if (this.judging) {
        socket.unpipe(upstream).resume();
        upstream.on("drain", () => socket.resume());
      }
      socket.on("data", (bytes: Buffer) => this.fromClient(bytes));
    });
    // All bytes of both directions pass this socket.
    socket.setTimeout(this.limits.idle, () => this.close(GOING_AWAY));
    for (const [side, other, who] of [
      [socket, upstream, "client"],
      [upstream, socket, "provider"],
    ] as const) {
      const over = () => {
        this.died ??= who;
        closeSoon(other);
      };
      side.on("error", over).once("end", over).once("close", over);
    }
  }

  /** Reads text messages beside the bytes; what it cannot read is for the client to judge. */
  private reading(text: (message: Buffer) => void): Receiver {
    const options = { isServer: false, maxPayload: this.limits.message, skipUTF8Validation: true };
    const receiver = new Receiver(options);
    receiver.on("message", (message: Buffer, binary: boolean) => {
      if (!binary) text(message);
    });
    const over = () => {
      this.receiver = undefined;
    };
    receiver.on("error", over).on("conclude", over);
    return receiver;
  }

  /** Reads the client's messages in front of the provider: what cannot be read, cannot be judged, and goes no further. */
  private judged(judge: (message: Buffer) => GatewayError | undefined): Receiver {
    const receiver = new Receiver({ isServer: true, maxPayload: this.limits.message, skipUTF8Validation: true });
    receiver.on("message", (message: Buffer) => (this.refusal ??= judge(message)));
    receiver.on("conclude", () => (this.concluded = true));
    // `admits` has seen it.
    receiver.on("error", () => {});
    return receiver;
  }

  /** Whether bytes of the client may go on: the provider acts on whole messages only, and one that is refused never ends. */
  private admits(bytes: Buffer, judging: Receiver): boolean {
    if (this.refusal || this.concluded) return false;
    // Messages and faults are told in this very call. It takes the mask off in place: the provider wants it on.
    judging.write(Buffer.from(bytes));
    if (judging.errored && tooLarge(judging.errored)) {
      this.concluded = true;
      this.close(TOO_BIG);
      return false;
    }
    if (judging.errored) this.refusal ??= new GatewayError("bad_request", { message: judging.errored.message });
    if (!this.refusal) return true;
    this.observer.interrupt(this.refusal);
    return false;
  }

  private fromProvider(bytes: Buffer): void {
    if (this.closed) return;
    if (this.farewell) {
      this.passClose(bytes);
      return;
    }
    const closing = this.closing !== undefined;
    const taken = this.down.push(bytes, closing, false);
    const frames = bytes.subarray(0, taken);
    this.observer.down(frames);
    this.receiver?.write(frames);
    if (!this.handshake.socket.write(frames) && !closing) this.upstream?.pause();
    if (closing) this.sayClose();
    else if (this.down.largest > this.limits.message) this.close(TOO_BIG);
    else if (taken < bytes.length) this.passClose(bytes.subarray(taken));
  }

  /** The provider's close frame, once all of it has come; nothing follows it (RFC 6455 §5.5.1). */
  private passClose(bytes: Buffer): void {
    const frame = Buffer.concat([this.farewell ?? Buffer.alloc(0), bytes]);
    this.farewell = frame;
    if (frame.length < 2 || frame.length < 2 + ((frame[1] as number) & 127)) return;
    this.down.push(frame);
    const clean = cleanClose(frame, this.observer.redactor);
    this.observer.down(clean);
    this.handshake.socket.write(clean);
    this.farewell = Buffer.alloc(0);
  }

  private fromClient(bytes: Buffer): void {
    this.observer.up(bytes);
    if (this.judging) {
      if (!this.admits(bytes, this.judging)) return;
      if (!this.closed && !this.upstream?.write(bytes)) this.handshake.socket.pause();
    }
    this.up.push(bytes);
    if (this.up.largest > this.limits.message) this.close(TOO_BIG);
  }

  /** Writes our close frame, unless a frame of the provider's is still on its way to the client. */
  private sayClose(): void {
    const { upstream, closing = RESTART } = this;
    const { socket } = this.handshake;
    if (!upstream || this.closed || !this.down.between) return;
    this.closed = true;
    // Behind what the library's pipes write in this very turn.
    process.nextTick(() => {
      socket.unpipe(upstream).resume();
      const { message, reason = "" } = this.lastWords ?? {};
      if (message !== undefined) socket.write(textFrame(message));
      socket.write(closeFrame(closing, false, reason));
      if (this.up.between && upstream.writable) upstream.write(closeFrame(closing, true));
    });
    setTimeout(() => {
      closeSoon(socket);
      closeSoon(upstream);
    }, CLOSING);
  }
}

/** Whether a receiver gave up because of its `maxPayload`. */
const tooLarge = (error: Error): boolean => "code" in error && error.code === "WS_ERR_UNSUPPORTED_MESSAGE_LENGTH";
