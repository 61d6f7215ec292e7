import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

/** A request received by a webhook. */
export interface ReceivedAlert {
  readonly text: string;
  readonly subject: string;
  readonly state: string;
  readonly host: string;
}

/** A receiver of alerts, like that of a chat program. */
export interface AlertReceiver {
  /** Its secret address. */
  readonly url: string;
  readonly received: ReceivedAlert[];
  /** Statuses and texts of the next responses; after them it is 200 again. */
  readonly answers: { status: number; body?: string; headers?: Record<string, string> }[];
  /** Waits until so many have arrived. */
  until(count: number): Promise<ReceivedAlert[]>;
}

export async function startReceiver(t: { teardown(act: () => unknown): unknown }): Promise<AlertReceiver> {
  const received: ReceivedAlert[] = [];
  const answers: AlertReceiver["answers"] = [];
  let arrived = () => {};
  const server = createServer(async (request, response) => {
    const body = await text(request);
    const { status, body: said = "ok", headers } = answers.shift() ?? { status: 200 };
    if (request.method === "POST" && request.url === "/services/T0/B0/canary-of-webhook" && status < 300)
      received.push(JSON.parse(body) as ReceivedAlert);
    response.writeHead(status, headers).end(said);
    arrived();
  });
  await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
  t.teardown(() => {
    server.close();
    server.closeAllConnections();
  });
  const until = async (count: number) => {
    while (received.length < count) await new Promise<void>((resolve) => (arrived = resolve));
    return received;
  };
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}/services/T0/B0/canary-of-webhook`, received, answers, until };
}
