import { connect } from "node:net";
import type { Test } from "tap";
import { KEY } from "./key.ts";
import { until } from "./until.ts";

/** Sends bytes (text: latin1) on a connection of its own, and keeps all that comes back. @param from the client's address */
export function talk(t: Test, port: number, bytes: string | Buffer = "", from = "127.0.0.1") {
  const socket = connect({ port, host: "127.0.0.1", localAddress: from }, () => socket.write(bytes, "latin1"));
  const got = { text: "", closed: false, error: undefined as Error | undefined };
  socket.setEncoding("latin1").on("data", (text: string) => (got.text += text));
  socket.on("error", (error) => (got.error = error)).on("close", () => (got.closed = true));
  t.teardown(() => socket.destroy());
  return Object.assign(got, { socket });
}

/** Sends bytes, and returns all that came back when the server has closed the connection. */
export async function talkToEnd(t: Test, port: number, bytes: string): Promise<string> {
  const client = talk(t, port, bytes);
  await until(() => client.closed, "the connection to close");
  return client.text;
}

/** The headers of a request with a JSON body and the test's key. */
export const JSON_BODY = [`authorization: Bearer ${KEY}`, "content-type: application/json"];

/** Returns a whole request, latin1. @param line method and target */
export const requestText = (line: string, headers: readonly string[] = [], body = ""): string =>
  [`${line} HTTP/1.1`, "host: a", ...headers, ...(body ? [`content-length: ${body.length}`] : []), "", body].join(
    "\r\n",
  );
