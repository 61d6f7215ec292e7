import { Agent, type IncomingMessage, request } from "node:http";
import { setTimeout as after } from "node:timers/promises";
import { asking, KEY } from "./key.ts";
import { httpUpstream } from "./upstream.ts";

const USAGE = { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10 };
const chunk = (more: object) => `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", ...more })}\n\n`;

/** Starts a provider whose every fifth response is slow. */
export const mixedProvider = () =>
  httpUpstream(async ({ body }, reply) => {
    const { stream, messages } = JSON.parse(body.toString()) as { stream: boolean; messages: { content: string }[] };
    if (Number(messages[0]?.content) % 5 === 0) await after(80);
    if (!stream) {
      const choices = [{ index: 0, message: { role: "assistant", content: "Hi" }, finish_reason: "stop" }];
      reply.setHeader("content-type", "application/json").end(JSON.stringify({ id: "c", choices, usage: USAGE }));
      return;
    }
    reply.setHeader("content-type", "text/event-stream");
    reply.write(chunk({ choices: [{ index: 0, delta: { content: "H" } }] }));
    await after(20);
    reply.write(chunk({ choices: [{ index: 0, delta: { content: "i" }, finish_reason: "stop" }] }));
    reply.end(`${chunk({ choices: [], usage: USAGE })}data: [DONE]\n\n`);
  });

/** The results of requests. */
interface Answered {
  /** Ids of complete responses. */
  whole: string[];
  /**
   * Statuses of the others; without a complete response, the client's error, its duration, and whether its connection was new.
   */
  others: (number | string)[];
}

/**
 * Sends requests until stopped, every second one a stream.
 * @param rate per second
 */
export function traffic(port: number, rate: number, key: string = KEY): () => Promise<Answered> {
  const agent = new Agent({ keepAlive: true, maxSockets: 64 });
  const whole: string[] = [];
  const others: Answered["others"] = [];
  let asked = 0;
  let going = true;
  const ask = (nth: number) => {
    const options = {
      port,
      host: "127.0.0.1",
      path: "/v1/chat/completions",
      method: "POST",
      headers: asking({ authorization: `Bearer ${key}` }),
      agent,
    };
    const { promise, resolve } = Promise.withResolvers<void>();
    const began = performance.now();
    const failed = ({ message }: Error) => {
      others.push(
        `${message} after ${Math.round(performance.now() - began)} ms, ${sent.reusedSocket ? "kept" : "new"}`,
      );
      resolve();
    };
    const sent = request(options, (answer: IncomingMessage) => {
      let text = "";
      answer.setEncoding("utf8").on("data", (more: string) => (text += more));
      answer.on("end", () => {
        if (answer.complete && text.includes('"usage"')) whole.push(String(answer.headers["x-request-id"]));
        else others.push(answer.complete ? (answer.statusCode ?? 0) : "broken off");
        resolve();
      });
      answer.on("error", failed);
    });
    const body = { model: "m", stream: nth % 2 === 0, stream_options: { include_usage: true } };
    sent.on("error", failed).end(JSON.stringify({ ...body, messages: [{ role: "user", content: String(nth) }] }));
    return promise;
  };
  const running: Promise<void>[] = [];
  const loop = (async () => {
    const begun = performance.now();
    while (going) {
      // Sends all that are due, as a timer may be late.
      while (going && asked <= ((performance.now() - begun) * rate) / 1000) running.push(ask(asked++));
      await after(5);
    }
  })();
  return async () => {
    going = false;
    await loop;
    await Promise.all(running);
    agent.destroy();
    return { whole, others };
  };
}
