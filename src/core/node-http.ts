import type * as http from "node:http";

/**
 * `node:http` without undici: an `import` reads every export of a built-in module, and one of this module's (`WebSocket`) loads
 * undici, which takes a tenth of the CPU of a start and 8 MB.
 */
export const { Agent, createServer, IncomingMessage, request, ServerResponse, STATUS_CODES } =
  process.getBuiltinModule("node:http");
export type Agent = http.Agent;
export type IncomingMessage = http.IncomingMessage;
export type ServerResponse = http.ServerResponse<http.IncomingMessage>;
