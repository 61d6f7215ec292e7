import { connect, constants } from "node:http2";
import type { Talk } from "./raw.ts";

/** Headers that HTTP/2 has no place for, or says otherwise. */
const WITHOUT = /^(?:connection|keep-alive|proxy-connection|transfer-encoding|upgrade|http2-settings|host|expect|te)$/i;
/** Milliseconds to wait for a response. */
const PATIENCE = 5000;

/**
 * Sends the one request in the bytes (latin1, as HTTP/1.1) by HTTP/2, over a connection of its own. The talk is written as
 * HTTP/1.1 too; without a status where the stream was broken off before its response.
 */
export function sendByHttp2(port: number, bytes: string): Promise<Talk> {
  const [, method = "", path = "", rest = ""] = /^(\S+) (\S*) HTTP\/1\.1\r\n(.*)$/s.exec(bytes) ?? [];
  const [head = "", body = ""] = rest.split(/\r\n\r\n(.*)/s);
  const fields = head.split("\r\n").flatMap((line) => {
    const [, name = "", value = ""] = /^([^:]+): *(.*)$/.exec(line) ?? [];
    return name === "" || WITHOUT.test(name) ? [] : [name.toLowerCase(), value];
  });
  const pseudo = [":method", method, ":path", path, ":scheme", "http", ":authority", "gw.test"];
  return new Promise((resolve) => {
    const talk: Talk = { statuses: [], text: "" };
    const session = connect(`http://127.0.0.1:${port}`);
    const end = () => {
      session.destroy();
      resolve(talk);
    };
    session.on("error", end).setTimeout(PATIENCE, end);
    const stream = session.request([...pseudo, ...fields], { endStream: body === "" });
    stream.on("response", (_headers, _flags, raw: string[]) => {
      const status = Number(raw[raw.indexOf(":status") + 1]);
      talk.statuses.push(status);
      const lines = raw.flatMap((name, i) => (i % 2 === 0 && name !== ":status" ? [`${name}: ${raw[i + 1]}\r\n`] : []));
      talk.text += `HTTP/1.1 ${status} \r\n${lines.join("")}\r\n`;
    });
    stream.setEncoding("latin1").on("data", (text: string) => (talk.text += text));
    stream
      .on("error", () => {})
      .on("close", () => {
        if (stream.rstCode !== constants.NGHTTP2_NO_ERROR) talk.text += "\r\n(broken off)";
        end();
      });
    if (body !== "") stream.end(body, "latin1");
  });
}
