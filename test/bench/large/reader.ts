// A bare node server that reads what it is sent.
import { createServer } from "node:http";

createServer((request, reply) => {
  request.on("data", () => {});
  request.on("end", () => reply.end("{}"));
}).listen(Number(process.env["PORT"]), "127.0.0.1");
