// Preloaded into a program: reports on port TURNS the longest turn of its event loop since the last query, in microseconds of
// the thread's CPU. It keeps the loop turning, so CPU is measured without it.
import { createServer } from "node:http";

let longest = 0;
let last = process.threadCpuUsage();
const look = (): void => {
  const now = process.threadCpuUsage();
  longest = Math.max(longest, now.user + now.system - last.user - last.system);
  last = process.threadCpuUsage();
  setImmediate(look).unref();
};
setImmediate(look);

createServer((_, reply) => {
  reply.end(String(longest));
  longest = 0;
})
  .listen(Number(process.env["TURNS"]), "127.0.0.1")
  .unref();
