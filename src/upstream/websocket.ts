import { createHash } from "node:crypto";
import type { ClientRequest, IncomingHttpHeaders, IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { type Duplex, Readable } from "node:stream";
import { Receiver } from "ws";
import { type BodyRateLimits, BodyRateMonitor } from "../core/body-rate.ts";
import type { BufferAccount, BufferMemory } from "../core/buffer-memory.ts";
import { type ErrorCode, GatewayError } from "../core/errors.ts";
import { STATUS_CODES } from "../core/node-http.ts";
import type { Redactor } from "../core/redactor.ts";
import { closeFrame, FrameTracker, redactCloseFrame, textFrame } from "./frame-tracker.ts";
import { forwarderRefusal, tunnelFailure } from "./http1/tunnel.ts";
import { flushAndClose, type OutgoingPass, whenConnected } from "./pass.ts";
import { forwarderOf, readErrorBody } from "./pass-bodies.ts";
import { type Progress, timeoutError, transportError, UpstreamFault } from "./transport-error.ts";

/** Longest wait for the provider's response to a handshake, in milliseconds. */
const HANDSHAKE_TIMEOUT = 30_000;
/** Milliseconds to wait for the reply to our close frame, and for the end of the provider's current frame before it. */
const CLOSE_TIMEOUT = 200;
const FRAME_END_TIMEOUT = 2000;
/** Milliseconds for which the provider's messages are read after a client that had not read them has left. */
const REST_TIMEOUT = 1000;
/** Milliseconds that a client has for closing its connection, once ours is closed for writing. */
const LINGER_TIME = 2000;

/** Bytes of incomplete messages for the sockets of one key, unless a single message may be larger. */
const KEY_BYTES = 16 * 1024 * 1024;
/** Number of keys that can use all of their bytes at the same time. */
const FULL_KEYS = 4;
/** Frames in one chunk after which a side is not read again in the same turn, where its messages are parsed. */
const MAX_FRAMES_A_TURN = 64;

/** What a server appends to a handshake's key before it hashes it (RFC 6455 §4.2.2). */
const ACCEPT_SUFFIX = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/** Close codes (RFC 6455 §7.4.1). */
const GOING_AWAY = 1001;
const ABNORMAL = 1006;
const POLICY = 1008;
const TOO_BIG = 1009;
const RESTART = 1012;
const TRY_AGAIN = 1013;

/** A client's WebSocket handshake. */
export interface Handshake {
  readonly request: IncomingMessage;
  /** Has an error listener: node has removed its own. */
  readonly socket: Socket;
  /** Bytes that came after the handshake in the same packet. */
  readonly head: Buffer;
  /** Its Sec-WebSocket-Key. */
  readonly key: string;
  /** Its Sec-WebSocket-Protocol entries, without those that only the gateway may see. */
  readonly protocols: readonly string[];
  /** The entry that is selected where the provider selects none. */
  readonly defaultProtocol: string | undefined;
}

/** Limits of a WebSocket's silence and messages. */
export interface SocketLimits {
  /** Milliseconds without a byte in either direction; 0: no limit. */
  readonly idle: number;
  /** Bytes of a message. */
  readonly message: number;
  /** How slowly a client's message may arrive where messages are read before they are forwarded. */
  readonly pace: BodyRateLimits;
}

/** Observes a WebSocket and checks its messages. */
export interface SocketObserver {
  /** Id of the caller's key; empty: none. */
  readonly caller: string;
  /** Called before the provider's response is forwarded; returns the headers to forward besides those of the handshake. */
  onResponseHead(status: number, rawHeaders: readonly string[]): IncomingHttpHeaders;
  onClientBytes(bytes: Buffer): void;
  onProviderBytes(bytes: Buffer): void;
  /** Called with the whole body of a refused handshake before it is forwarded. */
  onErrorBody(body: Buffer): void;
  /** Checks a client's message before the provider gets its last bytes; returns why it is refused. Absent: all messages pass. */
  checkMessage?: ((message: Buffer) => GatewayError | undefined) | undefined;
  /** Called with each text message of the provider. Absent: messages are not parsed. */
  onTextMessage?: ((message: Buffer) => void) | undefined;
  /** Redacts errors, and the reasons of close frames. */
  readonly redactor: Redactor;
  /** Called when the relay itself ends the socket with an error, for `onInterrupt` to report. */
  interrupt(error: GatewayError): void;
  /** Called when the handshake has failed and no response has been written: writes one synchronously. */
  refuse(error: GatewayError): void;
  /**
   * Registers a listener for when the gateway interrupts the socket; returns a function that unregisters it. `message` is what the
   * client gets on an open socket, in its protocol's form; undefined: the protocol has none.
   */
  onInterrupt(listener: (error: GatewayError, message: string | undefined) => void): () => void;
}

/** How a WebSocket ended. */
export interface SocketEnd {
  /** Code of the first close frame; 1006 where there was none; undefined: the socket was never open. */
  readonly code: number | undefined;
  /** Which side ended first without a close frame; `gateway`: it stops, and has sent a close frame itself. */
  readonly endedBy: "client" | "provider" | "gateway" | undefined;
}

/**
 * One WebSocket that http-proxy-3's `ws()` carries. Adds what that lacks: limits, closed connections that it does not notice, our
 * own close frame between two of the provider's frames, and exactly one end. Changes to the provider's response are made in front
 * of the library's own listeners, which write what they find.
 */
export class SocketRelay {
  private readonly end = Promise.withResolvers<SocketEnd>();
  private readonly clientFrames = new FrameTracker();
  private readonly providerFrames = new FrameTracker();
  private upstreamRequest: ClientRequest | undefined;
  private upstream: Duplex | undefined;
  private progress: Progress = "connecting";
  private responded = false;
  /** The code of our own close frame, once the socket is being closed. */
  private closing: number | undefined;
  /** The message to send before our close frame, and the reason in that frame. */
  private closeNotice: { message: string | undefined; reason: string } | undefined;
  private closeSent = false;
  /** Set once the client's connection is closed for writing. */
  private linger: NodeJS.Timeout | undefined;
  private endedBy: SocketEnd["endedBy"];
  /** The client has left, and the provider's last messages are only read for their usage. */
  private readsRest = false;
  private providerReceiver: Receiver | undefined;
  /** Parses the client's messages if they are checked, until one is refused or is the last. */
  private clientReceiver: Receiver | undefined;
  private refusal: GatewayError | undefined;
  private clientClosed = false;
  private readonly memory: BufferAccount;
  /** Watches the client's incomplete message, where messages are read. */
  private pace: BodyRateMonitor | undefined;
  /** Sides that are read again in the next turn. */
  private readonly waiting = new Set<Duplex>();
  /** The part of the provider's close frame that has arrived. */
  private pendingClose: Buffer | undefined;

  constructor(
    private readonly handshake: Handshake,
    private readonly outgoing: OutgoingPass,
    private readonly limits: SocketLimits,
    private readonly observer: SocketObserver,
    memory: BufferMemory,
  ) {
    const perCaller = Math.max(KEY_BYTES, limits.message);
    const { patience } = limits.pace;
    this.memory = memory.account(observer.caller, { perCaller, total: perCaller * FULL_KEYS, patience }, () =>
      this.endWith(tooManyMessages()),
    );
  }

  /**
   * Starts the handshake. Settles when the client's connection is closed; never rejects.
   * @param send gives the relay to the library
   */
  run(send: (relay: SocketRelay) => void): Promise<SocketEnd> {
    const { request, socket, key, protocols } = this.handshake;
    request.headers = {
      connection: "Upgrade",
      upgrade: "websocket",
      "sec-websocket-version": "13",
      "sec-websocket-key": key,
      // No extensions: their frames could not be parsed here.
      ...(protocols.length > 0 ? { "sec-websocket-protocol": protocols.join(", ") } : {}),
    };
    const settle = () => {
      // A client that has left knows nothing of the provider's last messages.
      const ofProvider = this.readsRest ? undefined : this.providerFrames.closeCode;
      const code = this.upstream && (this.closing ?? ofProvider ?? this.clientFrames.closeCode ?? ABNORMAL);
      const abnormalEnd = code === ABNORMAL ? (this.endedBy ?? "client") : undefined;
      unsubscribe();
      this.memory.close();
      this.pace?.stop();
      this.end.resolve({ code, endedBy: this.closing === RESTART ? "gateway" : abnormalEnd });
    };
    socket.once("close", () => {
      if (this.readsRest && !this.upstream?.destroyed) this.upstream?.once("close", settle);
      else settle();
    });
    const unsubscribe = this.observer.onInterrupt((error, message) => this.interrupt(error, message));
    // A client that has left while its handshake waited would never be noticed again.
    if (socket.readableEnded) {
      flushAndClose(socket);
      return this.end.promise;
    }
    try {
      send(this);
    } catch (thrown) {
      this.refuse(GatewayError.from(thrown));
    }
    return this.end.promise;
  }

  /** Called when the library is about to send the handshake. */
  onUpstreamRequest(upstream: ClientRequest): void {
    this.upstreamRequest = upstream;
    const { socket } = this.handshake;
    const { timeouts, target } = this.outgoing;
    const { connect, first_byte } = timeouts;
    const connectTimer =
      connect > 0 ? setTimeout(() => this.refuse(timeoutError("connect", connect, target.host)), connect) : 0;
    const limit = first_byte > 0 ? Math.min(first_byte, HANDSHAKE_TIMEOUT) : HANDSHAKE_TIMEOUT;
    const responseTimer = setTimeout(() => this.refuse(timeoutError("first_byte", limit, target.host)), limit);
    whenConnected(upstream, () => {
      this.progress = "waiting";
      clearTimeout(connectTimer);
    });
    // The library would never end an unanswered handshake.
    socket.once("close", () => {
      clearTimeout(connectTimer);
      clearTimeout(responseTimer);
      upstream.destroy();
    });
    // Until the response nothing reads the client's socket, so its end would go unnoticed. `read()` on an empty buffer takes no
    // bytes.
    const onReadable = () => {
      if (socket.readableLength === 0) socket.read();
    };
    socket.on("readable", onReadable).once("end", () => flushAndClose(socket));
    // After the library has added its listeners, which would forward any response: they are replaced, and called only for
    // allowed ones.
    process.nextTick(() => {
      const libraryListeners = upstream.listeners("response");
      upstream.removeAllListeners("response").once("response", (answer: IncomingMessage) => {
        this.forwardRefusal(answer, (response) => {
          clearTimeout(responseTimer);
          for (const listener of libraryListeners) listener(response);
        });
      });
      const upgradeListeners = upstream.listeners("upgrade");
      upstream.removeAllListeners("upgrade").once("upgrade", (answer, providerSocket, head) => {
        clearTimeout(responseTimer);
        // A pipe does not flow while there is a `readable` listener.
        socket.off("readable", onReadable);
        if (!this.isHandshakeAnswer(answer)) this.refuse(this.invalidAnswer("RESPONSE_NO_WEBSOCKET"));
        if (this.responded) {
          providerSocket.destroy();
          return;
        }
        this.onUpgrade(answer, providerSocket);
        for (const listener of upgradeListeners) listener(answer, providerSocket, head);
      });
    });
  }

  /** Called with an error that the library reports; it may report several for one handshake. */
  onError(thrown: Error): void {
    const { target, proxy } = this.outgoing;
    this.refuse(transportError(tunnelFailure(proxy, thrown), this.progress, target.host));
  }

  /** Ends an open socket with our close frame to both sides, as soon as the current frame has ended. */
  close(code = RESTART): void {
    const { upstream } = this;
    if (this.closing !== undefined || this.linger) return;
    if (!upstream) {
      this.refuse(new GatewayError("draining"));
      return;
    }
    this.closing = code;
    const { socket } = this.handshake;
    // From here on the provider's bytes are forwarded by hand, up to the end of a frame.
    upstream.unpipe(socket).resume();
    this.sendClose();
    const timer = setTimeout(() => {
      socket.destroy();
      upstream.destroy();
    }, FRAME_END_TIMEOUT);
    socket.once("close", () => clearTimeout(timer));
  }

  /** Ends the socket with an error that the client is sent. */
  private interrupt(error: GatewayError, message: string | undefined): void {
    if (this.closing !== undefined) return;
    this.closeNotice = { message, reason: error.code };
    if (this.upstream) this.close(error.code === "overloaded" ? TRY_AGAIN : POLICY);
    else this.refuse(error);
  }

  private refuse(error: GatewayError): void {
    if (this.responded) return;
    this.responded = true;
    this.observer.refuse(error);
    this.upstreamRequest?.destroy();
  }

  /**
   * Handles an HTTP response other than 101.
   * @param forward hands the buffered response to the library, which forwards it and closes
   */
  private forwardRefusal(answer: IncomingMessage, forward: (response: Readable) => void): void {
    const { observer } = this;
    const { statusCode: status = 0 } = answer;
    const error = this.responseError(status);
    if (error) this.refuse(error);
    if (this.responded) {
      answer.destroy();
      return;
    }
    this.progress = "answering";
    readErrorBody(answer, status, this.outgoing, observer.redactor).then(
      (body) => {
        if (this.responded) return;
        this.responded = true;
        const { "content-encoding": _, ...headers } = observer.onResponseHead(status, answer.rawHeaders);
        observer.onErrorBody(body);
        observer.onProviderBytes(body);
        const framing = { "content-length": String(body.length), connection: "close" };
        forward(
          Object.assign(Readable.from([body]), {
            statusCode: status,
            statusMessage: STATUS_CODES[status] ?? "Unknown",
            headers: { ...headers, ...framing },
          }),
        );
      },
      (error) => this.refuse(GatewayError.from(error, "upstream_invalid")),
    );
  }

  /** Returns why a response cannot be forwarded: only an error status can refuse a handshake. Undefined: it can. */
  private responseError(status: number): GatewayError | undefined {
    const { target } = this.outgoing;
    const proxyError = forwarderRefusal(forwarderOf(this.outgoing), status);
    if (proxyError) return transportError(proxyError, this.progress, target.host);
    if (status >= 400 && status <= 599) return undefined;
    const code = status >= 300 && status < 400 ? "upstream_redirect" : "upstream_invalid";
    return this.invalidAnswer(`STATUS_${status}`, code);
  }

  private invalidAnswer(fault: string, code: ErrorCode = "upstream_invalid"): GatewayError {
    return new GatewayError(code, { cause: new UpstreamFault(fault, this.outgoing.target.host) });
  }

  /** Reports whether a 101 opens a WebSocket (RFC 6455 §4.1); Node's parser has checked its `connection`. */
  private isHandshakeAnswer({ headers }: IncomingMessage): boolean {
    const accept = createHash("sha1")
      .update(this.handshake.key + ACCEPT_SUFFIX)
      .digest("base64");
    return headers.upgrade?.toLowerCase() === "websocket" && headers["sec-websocket-accept"] === accept;
  }

  private onUpgrade(answer: IncomingMessage, upstream: Duplex): void {
    const { socket, defaultProtocol } = this.handshake;
    this.responded = true;
    this.upstream = upstream;
    const { "sec-websocket-accept": accept, "sec-websocket-protocol": protocol = defaultProtocol } = answer.headers;
    answer.headers = {
      ...this.observer.onResponseHead(101, answer.rawHeaders),
      connection: "Upgrade",
      upgrade: "websocket",
      "sec-websocket-accept": accept,
    };
    // Clients abort a handshake that selects none of the protocols they offered.
    if (protocol !== undefined) answer.headers["sec-websocket-protocol"] = protocol;
    if (this.observer.onTextMessage) this.providerReceiver = this.createProviderReceiver(this.observer.onTextMessage);
    if (this.observer.checkMessage) this.clientReceiver = this.createClientReceiver(this.observer.checkMessage);
    // After the library has set up its pipes: earlier, only these listeners would get the bytes of the provider's first packet.
    process.nextTick(() => {
      // Forwarded by hand: the reason in a close frame is the provider's text, and may have to be redacted.
      upstream.unpipe(socket).on("data", (bytes: Buffer) => this.onProviderData(bytes));
      upstream.resume();
      socket.on("drain", () => this.resume(upstream));
      if (this.clientReceiver) {
        socket.unpipe(upstream).resume();
        upstream.on("drain", () => {
          this.resume(socket);
          this.pace?.resume();
        });
      }
      socket.on("data", (bytes: Buffer) => this.onClientData(bytes));
    });
    // All bytes of both directions pass this socket.
    socket.setTimeout(this.limits.idle, () => this.close(GOING_AWAY));
    for (const [side, name] of [
      [socket, "client"],
      [upstream, "provider"],
    ] as const) {
      const onEnd = () => {
        this.endedBy ??= name;
        if (name === "client" && this.providerReceiver && upstream.isPaused()) this.readRest(upstream);
        else if (name === "provider") this.endClient(upstream);
        else if (!this.readsRest) flushAndClose(upstream);
      };
      side.on("error", onEnd).once("end", onEnd).once("close", onEnd);
    }
  }

  /**
   * Closes the client's connection for writing, and discards what it sends until it closes it too: with a connection that is closed,
   * its next message would be answered by a reset, and a client loses what it has not read of ours by then.
   */
  private endClient(upstream: Duplex): void {
    const { socket } = this.handshake;
    if (socket.destroyed || this.linger) return;
    this.pace?.stop();
    socket.setTimeout(0);
    socket.unpipe(upstream).resume().end();
    this.linger = setTimeout(() => socket.destroy(), LINGER_TIME);
    socket.once("close", () => clearTimeout(this.linger));
  }

  /**
   * Reads what the provider has sent to a client that has left without reading it, as it may report usage. The provider is told
   * that nobody listens any more.
   */
  private readRest(upstream: Duplex): void {
    this.readsRest = true;
    upstream.resume();
    if (this.clientFrames.atFrameBoundary && upstream.writable) upstream.write(closeFrame(GOING_AWAY, true));
    const timer = setTimeout(() => flushAndClose(upstream), REST_TIMEOUT);
    upstream.once("close", () => clearTimeout(timer));
  }

  /** Parses the provider's text messages besides forwarding them; what cannot be parsed is left to the client. */
  private createProviderReceiver(onText: (message: Buffer) => void): Receiver {
    const options = { isServer: false, maxPayload: this.limits.message, skipUTF8Validation: true };
    const receiver = new Receiver(options);
    receiver.on("message", (message: Buffer, binary: boolean) => {
      if (!binary) onText(message);
    });
    const stopParsing = () => {
      this.providerReceiver = undefined;
    };
    receiver.on("error", stopParsing).on("conclude", stopParsing);
    return receiver;
  }

  /** Parses the client's messages before they are forwarded: what cannot be parsed cannot be checked, and is not forwarded. */
  private createClientReceiver(check: (message: Buffer) => GatewayError | undefined): Receiver {
    const receiver = new Receiver({ isServer: true, maxPayload: this.limits.message, skipUTF8Validation: true });
    receiver.on("message", (message: Buffer) => (this.refusal ??= check(message)));
    receiver.on("conclude", () => (this.clientClosed = true));
    // `admits` reports the error.
    receiver.on("error", () => {});
    return receiver;
  }

  /**
   * Reports whether bytes of the client may be forwarded. A refused message never reaches the provider completely, and a provider
   * acts only on complete messages.
   */
  private admits(bytes: Buffer, receiver: Receiver): boolean {
    if (this.clientClosed) return false;
    // The receiver emits messages and errors synchronously. It unmasks its input in place, so it gets a copy: the provider needs
    // the mask.
    receiver.write(Buffer.from(bytes));
    if (receiver.errored && isMessageTooLarge(receiver.errored)) {
      this.clientClosed = true;
      this.close(TOO_BIG);
      return false;
    }
    if (receiver.errored) this.refusal ??= new GatewayError("bad_request", { message: receiver.errored.message });
    if (!this.refusal) return true;
    this.endWith(this.refusal);
    return false;
  }

  /** Counts what the receivers keep of incomplete messages, and ends the socket where there is no room for it. */
  private reserveMemory(): void {
    // What the provider still sends would be counted for ever, or ends soon.
    if (this.handshake.socket.destroyed || this.refusal) return;
    const ofClient = this.clientReceiver ? this.clientFrames.unfinishedBytes : 0;
    const ofProvider = this.providerReceiver ? this.providerFrames.unfinishedBytes : 0;
    if (this.memory.set(ofClient + ofProvider) === undefined) return;
    this.endWith(tooManyMessages());
  }

  /** Watches how fast the client's incomplete message arrives. @param ended whether another one has ended in these bytes */
  private watchPace(bytes: number, ended: boolean): void {
    if (ended) {
      this.pace?.stop();
      this.pace = undefined;
    }
    if (this.clientFrames.unfinishedBytes === 0 || this.closing !== undefined) return;
    const onTooSlow = () =>
      this.endWith(new GatewayError("body_timeout", { message: "A WebSocket message did not arrive in time." }));
    this.pace ??= new BodyRateMonitor(this.limits.pace, { onTooSlow });
    // Its chunks are counted as memory.
    this.pace.addBytes(bytes, 0);
    if (this.handshake.socket.isPaused()) this.pace.pause();
  }

  /** Ends the socket with an error. Nothing more of the client is read, and what was read is let go for other sockets. */
  private endWith(error: GatewayError): void {
    this.refusal = error;
    this.clientReceiver = undefined;
    this.memory.close();
    this.observer.interrupt(error);
  }

  private onProviderData(bytes: Buffer): void {
    if (this.closeSent || this.providerFrames.closeCode !== undefined) return;
    if (this.pendingClose) {
      this.forwardClose(bytes);
      return;
    }
    const closing = this.closing !== undefined;
    const framesBefore = this.providerFrames.frames;
    const consumed = this.providerFrames.push(bytes, closing, false);
    const frames = bytes.subarray(0, consumed);
    this.observer.onProviderBytes(frames);
    this.providerReceiver?.write(frames);
    if (this.providerReceiver && this.providerFrames.frames - framesBefore > MAX_FRAMES_A_TURN)
      this.readNextTurn(this.upstream as Duplex, this.handshake.socket);
    if (this.readsRest) return;
    if (!this.handshake.socket.write(frames) && !closing) this.upstream?.pause();
    if (closing) this.sendClose();
    else if (this.providerFrames.largestMessage > this.limits.message) this.close(TOO_BIG);
    else if (consumed < bytes.length) this.forwardClose(bytes.subarray(consumed));
    else this.reserveMemory();
  }

  /** Forwards the provider's close frame once it is complete; nothing may follow it (RFC 6455 §5.5.1). */
  private forwardClose(bytes: Buffer): void {
    const frame = Buffer.concat([this.pendingClose ?? Buffer.alloc(0), bytes]);
    this.pendingClose = frame;
    if (frame.length < 2 || frame.length < 2 + ((frame[1] as number) & 127)) return;
    this.providerFrames.push(frame);
    const redacted = redactCloseFrame(frame, this.observer.redactor);
    this.observer.onProviderBytes(redacted);
    this.handshake.socket.write(redacted);
  }

  private onClientData(bytes: Buffer): void {
    this.observer.onClientBytes(bytes);
    if (this.refusal || this.linger) return;
    if (this.clientReceiver && !this.admits(bytes, this.clientReceiver)) return;
    const { messages, frames } = this.clientFrames;
    // What follows a close frame was not checked.
    const passed = bytes.subarray(0, this.clientFrames.push(bytes));
    if (this.clientReceiver && !this.closeSent && !this.upstream?.write(passed)) this.handshake.socket.pause();
    if (this.clientFrames.largestMessage > this.limits.message) this.close(TOO_BIG);
    else if (this.clientReceiver) {
      this.reserveMemory();
      this.watchPace(bytes.length, this.clientFrames.messages > messages);
      if (this.clientFrames.frames - frames > MAX_FRAMES_A_TURN)
        this.readNextTurn(this.handshake.socket, this.upstream as Duplex);
    }
  }

  /**
   * Lets other connections have their turn: a socket with a full buffer is read many times in one turn, and thousands of small frames
   * at each time.
   */
  private readNextTurn(side: Duplex, otherSide: Duplex): void {
    this.waiting.add(side);
    side.pause();
    setImmediate(() => {
      this.waiting.delete(side);
      if (!otherSide.writableNeedDrain) side.resume();
    });
  }

  private resume(side: Duplex): void {
    if (!this.waiting.has(side)) side.resume();
  }

  /** Writes our close frame, unless a frame of the provider's is still incomplete at the client. */
  private sendClose(): void {
    const { upstream, closing = RESTART } = this;
    const { socket } = this.handshake;
    if (!upstream || this.closeSent || !this.providerFrames.atFrameBoundary) return;
    this.closeSent = true;
    // After what the library's pipes write in this turn.
    process.nextTick(() => {
      socket.unpipe(upstream).resume();
      const { message, reason = "" } = this.closeNotice ?? {};
      if (message !== undefined) socket.write(textFrame(message));
      socket.write(closeFrame(closing, false, reason));
      if (this.clientFrames.atFrameBoundary && upstream.writable) upstream.write(closeFrame(closing, true));
    });
    setTimeout(() => {
      this.endClient(upstream);
      flushAndClose(upstream);
    }, CLOSE_TIMEOUT);
  }
}

/** Reports whether a receiver gave up because of its `maxPayload`. */
const isMessageTooLarge = (error: Error): boolean =>
  "code" in error && error.code === "WS_ERR_UNSUPPORTED_MESSAGE_LENGTH";

const tooManyMessages = (): GatewayError =>
  new GatewayError("overloaded", { message: "Too many large WebSocket messages are incomplete." });
