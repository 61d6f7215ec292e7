// Bare http-proxy-3 with a keep-alive agent, and nothing else: the yardstick.
import { Agent, createServer, ServerResponse } from "node:http";
import { createProxyServer } from "http-proxy-3";

const agent = new Agent({ keepAlive: true, maxSockets: 4096, maxFreeSockets: 4096, scheduling: "lifo", noDelay: true });
const proxy = createProxyServer({ target: `http://${process.env["UPSTREAM"]}`, agent });

proxy.on("error", (_error, _request, response) => {
  if (response instanceof ServerResponse && !response.headersSent) response.writeHead(502).end();
  else response?.destroy();
});

createServer({ noDelay: true, keepAliveTimeout: 75_000 }, (request, response) => {
  proxy.web(request, response);
}).listen(Number(process.env["PORT"]), "127.0.0.1", 4096);
