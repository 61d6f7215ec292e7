import { createServer } from "node:http";
import { text } from "node:stream/consumers";
import { listen, type Teardown } from "./listen.ts";

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

export async function startReceiver(t: Teardown): Promise<AlertReceiver> {
  const received: ReceivedAlert[] = [];
  const answers: AlertReceiver["answers"] = [];
  let arrived = () => {};
  const server = createServer(async (request, response) => {
    const body = await text(request);
    const { status, body: content = "ok", headers } = answers.shift() ?? { status: 200 };
    if (request.method === "POST" && request.url === "/services/T0/B0/canary-of-webhook" && status < 300)
      received.push(JSON.parse(body) as ReceivedAlert);
    response.writeHead(status, headers).end(content);
    arrived();
  });
  const until = async (count: number) => {
    while (received.length < count) await new Promise<void>((resolve) => (arrived = resolve));
    return received;
  };
  return {
    url: `http://127.0.0.1:${await listen(t, server)}/services/T0/B0/canary-of-webhook`,
    received,
    answers,
    until,
  };
}
