import { spawn } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import type { Test } from "tap";

const PROGRAM = `
const server = require("node:net").createServer();
server.listen({ port: 0, host: "127.0.0.1", backlog: 1 }, () => console.log(server.address().port));`;
/** More connections than fit into its queue. */
const FILLING = 4;

/** Returns a port that answers no attempts to connect, like one behind a firewall that drops packets. */
export async function deafPort(t: Test): Promise<number> {
  const child = spawn(process.execPath, ["-e", PROGRAM], { stdio: ["ignore", "pipe", "inherit"] });
  t.teardown(() => child.kill("SIGKILL"));
  const [output] = await once(child.stdout, "data");
  const port = Number(String(output));
  child.kill("SIGSTOP");
  const fillers = Array.from({ length: FILLING }, () => connect(port, "127.0.0.1").on("error", () => {}));
  t.teardown(() => {
    for (const filler of fillers) filler.destroy();
  });
  await Promise.all(fillers.slice(0, 2).map((filler) => once(filler, "connect")));
  return port;
}
