import type { Operation, Protocol } from "model-gateway/protocol";
import { family } from "../openai/family.ts";
import { namesInMessage } from "./objects.ts";
import { messageUsageReader, readUsage } from "./usage.ts";

const PATH = "/v1/realtime";

const realtime: Operation = {
  name: "realtime",
  method: "GET",
  body: "none",
  streams: true,
  framing: "sse",
  generates: true,
  upstream: () => "/realtime",
};

/** Endpoints that return a key, or open a WebRTC conversation, which would work without this gateway. */
const KEY_ENDPOINTS = [
  /(?:^|\/)realtime(?:api)?\/(?:sessions|transcription_sessions|client_secrets|translations\/client_secrets|calls)[^/]*$/,
  /(?:^|\/)live\/sessions(?:[^/]*$|\/[^/]+\/(?:fork|attach)[^/]*$)/,
  /(?:^|\/)chatkit\/sessions[^/]*$/,
  /(?:^|\/)organizations?\/(?:.+\/)?(?:admin_api_keys|api_keys|service_accounts)[^/]*$/,
];

/** Realtime: a conversation over a WebSocket, whose messages pass unchanged. */
const openaiRealtime: Protocol = {
  ...family,
  name: "openai-realtime",
  paths: [PATH],
  usageMembers: ["usage"],

  // The protocol has only the WebSocket.
  locate: () => undefined,
  recognises: (path) => /\/realtime(\/|$)/.test(path),
  streamError: () => Buffer.alloc(0),
  ending: () => undefined,
  holdsUsage: () => false,
  usage: readUsage,
  // No plugin sees a WebSocket's messages.
  texts: { request: () => [], response: () => [] },
  createsKey: (method, path) => method === "POST" && KEY_ENDPOINTS.some((endpoint) => endpoint.test(path)),
  socket: {
    locate: (path, _rest, query) => {
      const model = query.get("model");
      return path === PATH ? { operation: realtime, ...(model === null ? {} : { model }) } : undefined;
    },
    modelParameter: "model",
    // Azure's deployments, and calls started by other means.
    otherParameters: ["deployment", "call_id"],
    objectParameters: ["call_id"],
    keyPrefix: "openai-insecure-api-key.",
    hiddenPrefixes: ["openai-organization.", "openai-project."],
    nameMarkers: ["model", "prompt", "file_id", "tunnel_id", "voice"],
    namesIn: namesInMessage,
    error: (error, id) => JSON.stringify({ type: "error", event_id: id, ...JSON.parse(family.error(error)) }),
    usageReader: messageUsageReader,
  },
  demo: () => ({ status: 404, headers: { "content-type": "application/json" }, frames: [{ bytes: "{}" }] }),
};

export default openaiRealtime;
