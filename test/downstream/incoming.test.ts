import { once } from "node:events";
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import t from "tap";
import { Incoming } from "../../src/downstream/incoming.ts";

t.test("lines are all there as they came, headers has those that are looked at", async (t) => {
  const seen: Incoming[] = [];
  const server = createServer({ IncomingMessage: Incoming }, (incoming, reply) => {
    seen.push(incoming);
    incoming.resume();
    reply.end();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.teardown(() => void server.close());
  const headers = ["Host", "h", "X-Some", "1", "x-some", "2", "Content-Type", "text/plain", "TE", "trailers"];
  const asking = request({ port: (server.address() as AddressInfo).port, method: "POST", headers, agent: false });
  asking.end();
  await once(asking, "response");
  const [incoming] = seen;
  t.same(incoming?.lines.lines.slice(0, 10), headers);
  t.equal(incoming?.lines, incoming?.lines);
  t.same(
    [incoming?.headers.host, incoming?.headers.te, incoming?.headers["content-type"], incoming?.headers.expect],
    ["h", "trailers", "text/plain", undefined],
  );
  t.equal(incoming?.headers, incoming?.headers);
});
