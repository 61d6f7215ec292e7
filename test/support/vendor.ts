import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { listen, type Teardown } from "./listen.ts";

/** A vendor on a local port that responds as a test defines. */
export interface ScriptedVendor {
  /** Without a trailing slash. */
  url: string;
  /** Its requests, in order. */
  requests: { method: string; url: string; headers: IncomingMessage["headers"] }[];
}

/** Starts a vendor, stopped with the test. */
export async function startVendor(
  t: Teardown,
  answer: (request: IncomingMessage, response: ServerResponse) => void,
): Promise<ScriptedVendor> {
  const requests: ScriptedVendor["requests"] = [];
  const server = createServer((request, response) => {
    requests.push({ method: request.method ?? "", url: request.url ?? "", headers: request.headers });
    request.resume();
    answer(request, response);
  });
  return { url: `http://127.0.0.1:${await listen(t, server)}`, requests };
}

/** Responds to every request with this JSON. */
export const json =
  (body: unknown, status = 200) =>
  (_request: IncomingMessage, response: ServerResponse): void => {
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
  };
