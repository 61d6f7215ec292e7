import { rmSync, statSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { connect } from "node:net";
import type { ListenPlace } from "../downstream/listener.ts";

/** Whether requests shall come, and what each part says of itself: `ok`, or what is the matter. */
export interface Readiness {
  readonly ready: boolean;
  readonly parts: Readonly<Record<string, string>>;
}

/** Where the admin side listens. */
export type AdminPlace = ListenPlace | { readonly path: string };

/** Milliseconds for the head of a request, and for which an idle connection is kept. */
const PATIENCE = 5000;

/** The admin side: a listener of its own, for those who run the gateway. */
export class Admin {
  private readonly server = createServer(
    { headersTimeout: PATIENCE, requestTimeout: PATIENCE, keepAliveTimeout: PATIENCE, maxHeaderSize: 8 * 1024 },
    (request, response) => this.answer(request, response),
  );

  constructor(private readonly readiness: () => Readiness) {}

  /** @returns where, for people @throws what the system says of the address */
  async listen(place: AdminPlace): Promise<string> {
    if ("path" in place) await freed(place.path);
    await new Promise<void>((ready, failed) =>
      this.server.once("error", failed).listen({ ...place }, () => {
        this.server.off("error", failed).on("error", () => {});
        ready();
      }),
    );
    const address = this.server.address();
    if (address === null || typeof address === "string") return `unix:${address ?? ""}`;
    return `http://${address.family === "IPv6" ? `[${address.address}]` : address.address}:${address.port}`;
  }

  close(): void {
    this.server.close();
    this.server.closeAllConnections();
  }

  private answer({ method, url = "" }: IncomingMessage, response: ServerResponse): void {
    const [path] = url.split("?");
    if (method !== "GET" && method !== "HEAD")
      send(response.setHeader("allow", "GET, HEAD"), 405, { error: "GET only" });
    else if (path === "/livez") send(response, 200, { live: true });
    else if (path === "/readyz") {
      const { ready, parts } = this.readiness();
      send(response, ready ? 200 : 503, { ready, ...parts });
    } else send(response, 404, { error: "No such path.", paths: ["/livez", "/readyz"] });
  }
}

function send(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { "content-type": "application/json", "cache-control": "no-store" });
  response.end(`${JSON.stringify(body)}\n`);
}

/** Removes the file of a socket on which nobody listens any more: one that died leaves it behind. */
async function freed(path: string): Promise<void> {
  if (!statSync(path, { throwIfNoEntry: false })?.isSocket()) return;
  const used = await new Promise<boolean>((answer) => {
    const socket = connect(path, () => answer(true)).on("error", () => answer(false));
    socket.once("connect", () => socket.destroy());
  });
  if (!used) rmSync(path, { force: true });
}
