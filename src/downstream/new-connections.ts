import type { Socket } from "node:net";

/** Maximum connections that are taken together, and milliseconds in which they are collected. */
const MAX_GROUP = 32;
const MAX_TIME = 4;

/**
 * Takes new connections in groups. Node accepts one in each turn of the event loop, and a turn that also reads and serves a request
 * is long: while more connections arrive, turns accept one each and do little else, until all of them are taken in the same turn.
 * Their requests are then read together, and processed together too.
 */
export class NewConnections {
  private readonly collected: Socket[] = [];
  /** When the first of them was accepted. */
  private since = 0;
  /** Whether one was accepted in this turn, and in the one before. */
  private inThisTurn = false;
  private inTurnBefore = false;

  /** @param take receives each connection */
  constructor(private readonly take: (socket: Socket) => void) {}

  /** Number of connections that wait to be taken. */
  get size(): number {
    return this.collected.length;
  }

  /** Whether more connections are likely to wait in the accept queue. */
  get areArriving(): boolean {
    return this.inThisTurn || this.inTurnBefore;
  }

  /** Adds an accepted connection. One that comes alone is taken at once. */
  add(socket: Socket, now: number): void {
    this.inThisTurn = true;
    if (!this.inTurnBefore) this.take(socket);
    else if (this.collected.push(socket) === 1) this.since = now;
  }

  /**
   * Ends a turn of the event loop.
   * @returns whether connections are being collected, so that nothing else should be done in this turn
   */
  endTurn(now: number): boolean {
    this.inTurnBefore = this.inThisTurn;
    this.inThisTurn = false;
    const { size } = this;
    if (size > 0 && size < MAX_GROUP && this.inTurnBefore && now - this.since < MAX_TIME) return true;
    for (const socket of this.collected.splice(0)) this.take(socket);
    return false;
  }
}
