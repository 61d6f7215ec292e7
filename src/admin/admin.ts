import type { Socket } from "node:net";
import { nearest } from "../config/suggest.ts";
import { formatAddress } from "../config/units.ts";
import type { PathRequest } from "../console/console-pages.ts";
import { StoreUnavailableError, thrownStack } from "../core/errors.ts";
import type { Log } from "../core/log.ts";
import { listenOptions, peerAddress } from "../core/networks.ts";
import { createServer, type IncomingMessage, type ServerResponse } from "../core/node-http.ts";
import type { SocketAddress } from "../downstream/listener.ts";
import { CHALLENGE } from "../wire/headers.ts";
import { HTTP2_PREFACE, http2Refusal } from "../wire/http2-refusal.ts";
import { Access } from "./access.ts";
import type { AdminGateway } from "./admin-gateway.ts";
import { findRoute } from "./api.ts";
import { AdminError } from "./errors.ts";
import { LiveStream } from "./live-stream.ts";
import { readJsonBody, sendJson } from "./messages.ts";
import { adminOpenApi } from "./openapi.ts";
import { readinessProblems } from "./readiness.ts";
import { SessionRoutes } from "./session-routes.ts";
import { freeSocketFile } from "./socket-file.ts";
import type { AdminUser } from "./user.ts";
import { WrongTokens } from "./wrong-tokens.ts";

/** Where the admin side listens. */
export type AdminListenAddress = SocketAddress | { readonly path: string };

/** Serves pages outside of the API, which contain only public data. */
interface AdminPages {
  /**
   * @param known whether the API would accept the request's sender
   * @returns whether it has responded
   */
  serve(received: PathRequest, known: () => Promise<boolean>): Promise<boolean>;
}

/** Optional parts of the admin side. */
export interface AdminOptions {
  readonly log: Log;
  readonly pages?: AdminPages | undefined;
  /** Returns all metrics in Prometheus' text format. @param wrongTokens the number of wrong tokens since the start */
  readonly metrics?: ((wrongTokens: number) => Promise<{ type: string; text: string }>) | undefined;
}

/** The OpenAPI description of the admin side. */
const OPENAPI_PATH = "/openapi.json";
/** Milliseconds for the head of a request, and for which an idle connection is kept. */
const CONNECTION_TIMEOUT = 5000;

/** The admin side: a listener of its own, for operators. docs/admin-api.md describes its API. */
export class Admin {
  private readonly server = createServer(
    {
      headersTimeout: CONNECTION_TIMEOUT,
      requestTimeout: CONNECTION_TIMEOUT,
      keepAliveTimeout: CONNECTION_TIMEOUT,
      maxHeaderSize: 8 * 1024,
    },
    (request, response) => void this.handle(request, response),
  ).on("clientError", (error: NodeJS.ErrnoException, socket: Socket) => this.refuseMalformed(error, socket));
  private readonly access: Access;
  private readonly wrongTokens: WrongTokens;
  private readonly sessions: SessionRoutes;
  private readonly live: LiveStream;
  /** The host name that gateway.yaml has it listen on. */
  private listenHost = "";

  constructor(
    private readonly gateway: AdminGateway,
    private readonly parts: AdminOptions,
  ) {
    const secret = async () => gateway.config.envelopes.key ?? gateway.stores.secret();
    this.wrongTokens = new WrongTokens(parts.log, () => gateway.config.trust);
    this.access = new Access(() => gateway.config.adminAccess, {
      secret,
      revokedSessions: gateway.stores.revokedSessions,
      wrongTokens: this.wrongTokens,
    });
    this.sessions = new SessionRoutes(this.access, gateway.stores.audit, parts.log, () => gateway.config.timezone);
    this.live = new LiveStream(gateway, this.access, parts.log);
  }

  /** @returns the address, for people @throws the system's error for the address, or FileError for that of a socket's file */
  async listen(listenAddress: AdminListenAddress): Promise<string> {
    if ("path" in listenAddress) await freeSocketFile(listenAddress.path);
    if ("host" in listenAddress) this.listenHost = listenAddress.host;
    await new Promise<void>((ready, failed) =>
      this.server.once("error", failed).listen({ ...listenOptions(listenAddress) }, () => {
        this.server.off("error", failed).on("error", () => {});
        ready();
      }),
    );
    const address = this.server.address();
    if (address === null || typeof address === "string") return `unix:${address ?? ""}`;
    return `http://${formatAddress({ host: address.address, port: address.port })}`;
  }

  close(): void {
    this.live.close();
    this.server.close();
    this.server.closeAllConnections();
  }

  private async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      const { url = "" } = request;
      const [path = ""] = url.split("?", 1);
      const query = url.slice(path.length + 1);
      if (path === "/livez" || path === "/readyz") this.probe(request, response, path);
      else await this.serve({ request, response, path, query: new URLSearchParams(query) });
    } catch (thrown) {
      if (thrown instanceof AdminError && thrown.cause) this.logFailure(thrown.cause);
      const error = thrown instanceof AdminError ? thrown : this.toAdminError(thrown);
      if (error.allow && !response.headersSent) response.setHeader("allow", error.allow.join(", "));
      if (error.retryAfter !== undefined && !response.headersSent) response.setHeader("retry-after", error.retryAfter);
      if (error.code === "signed_out" && !response.headersSent) response.setHeader(...CHALLENGE);
      if (response.headersSent) response.destroy();
      else {
        const { code, message, problems } = error;
        sendJson(response, error.status, { error: { code, message, ...(problems && { problems }) } });
      }
    }
  }

  /** Answers what is no request of HTTP/1.1, unless another answer may be on its way. */
  private refuseMalformed({ code = "" }: NodeJS.ErrnoException, socket: Socket): void {
    if (!socket.writable || socket.bytesWritten > 0) {
      socket.destroy();
      return;
    }
    // Without a listener of ours, a reset while this is written could end the process.
    socket.on("error", () => {});
    const status = MALFORMED_STATUS[code] ?? "400 Bad Request";
    socket.end(code === HTTP2_PREFACE ? http2Refusal() : `HTTP/1.1 ${status}\r\nconnection: close\r\n\r\n`);
    socket.destroySoon();
    this.parts.log.info({ address: peerAddress(socket), cause: code }, "refused by the admin side");
  }

  private probe({ method }: IncomingMessage, response: ServerResponse, path: string): void {
    if (method !== "GET" && method !== "HEAD")
      sendJson(response.setHeader("allow", "GET, HEAD"), 405, { error: "GET only" });
    else if (path === "/livez") sendJson(response, 200, { live: true });
    else {
      const { ready, parts } = this.gateway.readiness();
      const why = readinessProblems(parts, this.gateway.config, this.gateway.workerCounts);
      sendJson(response, ready ? 200 : 503, { ready, ...parts, ...(why.length > 0 && { why }) });
    }
  }

  private async serve(received: PathRequest): Promise<void> {
    const { request, response, path } = received;
    const { access } = this;
    const { host } = request.headers;
    // Node takes the first one, and a proxy in front may take another.
    if ((request.headersDistinct["host"]?.length ?? 0) > 1) throw new AdminError("bad_request", "Host occurs twice.");
    if (!access.isAllowedHost(host, this.listenHost))
      throw new AdminError("wrong_host", `This is not ${host}. Where it shall be, set admin: { hosts: […] }.`);
    const reads = request.method === "GET" || request.method === "HEAD";
    if (!reads && access.isCrossOrigin(request))
      throw new AdminError(
        "not_allowed",
        "Another site cannot change anything here. If this is the console's own, the proxy in front must pass Host on (nginx: proxy_set_header Host $http_host).",
      );
    if (access.isEmbedded(request))
      throw new AdminError("not_allowed", "Pages of other origins cannot use anything here.");
    if (await this.sessions.serve(received)) return;
    if (path !== "/metrics" && path !== OPENAPI_PATH && !path.startsWith("/api/")) {
      if (reads && (await this.parts.pages?.serve(received, () => this.isKnownUser(request)))) return;
      throw new AdminError(
        "not_found",
        "There is nothing here. /livez, /readyz, /metrics, /openapi.json and /api/… are answered.",
      );
    }
    const user = await access.authenticate(request);
    if (!user) throw this.unauthenticatedError();
    if (path === "/metrics") await this.metrics(response);
    else if (path === OPENAPI_PATH && reads) sendJson(response, 200, adminOpenApi());
    else if (path === "/api/live/events" && request.method === "GET") this.live.serve(request, response, user);
    else await this.api(received, user);
  }

  /** Reports whether the API would accept the sender; true where the store fails, because the API reports why. */
  private async isKnownUser(request: IncomingMessage): Promise<boolean> {
    return this.access.authenticate(request).then(
      (user) => user !== undefined,
      () => true,
    );
  }

  private async api({ request, response, path, query }: PathRequest, user: AdminUser): Promise<void> {
    const found = findRoute(request.method === "HEAD" ? "GET" : (request.method ?? ""), path);
    if (!found) throw new AdminError("not_found", "There is no such part of the API: see docs/admin-api.md.");
    const { route, names } = found;
    const { handler, method, status, admin } = route;
    const changes = method !== "GET";
    if (admin && user.role !== "admin")
      throw new AdminError(
        "not_allowed",
        changes
          ? `A viewer cannot change anything: ${this.access.adminSignInHint}.`
          : `Only admins may read recorded requests: ${this.access.adminSignInHint}.`,
      );
    for (const name of query.keys())
      if (!Object.hasOwn(route.query, name))
        throw new AdminError("bad_request", unknownParameter(name, Object.keys(route.query)));
    const body = changes ? await readJsonBody(request) : {};
    const { body: answer, audit } = await handler(this.gateway, { user, query, names, body });
    if (audit) {
      const { who, address } = user;
      await this.gateway.stores.audit.add({ time: Date.now(), who, address, ...audit }).catch((cause: Error) => {
        const what = `${audit.action} of ${audit.subject}`;
        throw new AdminError("unavailable", `${what} was done, but is not in the audit trail: ${cause.message}`, {
          cause,
        });
      });
      this.parts.log.info({ who, address, action: audit.action, subject: audit.subject }, "admin");
    }
    sendJson(response, status, answer);
  }

  private async metrics(response: ServerResponse): Promise<void> {
    if (!this.parts.metrics) throw new AdminError("not_found", "There are no metrics.");
    const { type, text } = await this.parts.metrics(this.wrongTokens.total);
    response.writeHead(200, { "content-type": type, "cache-control": "no-store" }).end(text);
  }

  private unauthenticatedError(): AdminError {
    if (this.access.signInMethods.length > 0)
      return new AdminError("signed_out", "Sign in, or send Authorization: Bearer with the token.");
    const message = "Without a token only this machine may: set admin: { token: $ADMIN_TOKEN }.";
    return new AdminError("not_allowed", message);
  }

  private toAdminError(thrown: unknown): AdminError {
    this.logFailure(thrown);
    if (thrown instanceof StoreUnavailableError)
      return new AdminError("unavailable", `The store cannot answer at the moment: ${thrown.message}`);
    return new AdminError("failed", "It failed: the log says why.");
  }

  private logFailure(thrown: unknown): void {
    this.parts.log.error({ cause: thrownStack(thrown) }, "the admin side failed");
  }
}

/** The status lines of heads that node's parser refuses or did not receive in time; any other is a 400. */
const MALFORMED_STATUS: Readonly<Record<string, string>> = {
  HPE_HEADER_OVERFLOW: "431 Request Header Fields Too Large",
  ERR_HTTP_REQUEST_TIMEOUT: "408 Request Timeout",
};

function unknownParameter(name: string, known: readonly string[]): string {
  const near = nearest(name, known);
  const hint = near === undefined ? "." : `, did you mean ${near}?`;
  return `There is no parameter ${JSON.stringify(name)} here${hint} It takes ${known.join(", ") || "none"}.`;
}
