import {
  asList,
  asObject,
  type Event,
  type Frame,
  GatewayError,
  type ResponseDecoder,
  type ResponseSource,
} from "model-gateway/protocol";
import { faultIn, reported, reportedIn } from "../openai/errors.ts";
import { Answer } from "./response.answer.ts";
import { Recording } from "./response.record.ts";

/** Reads a stream of chunks. */
export function decoder(source: ResponseSource): ResponseDecoder {
  return new StreamReader(source);
}

class StreamReader implements ResponseDecoder {
  private readonly answer: Answer;

  constructor(source: ResponseSource) {
    this.answer = new Answer(source, source.native ? new Recording() : undefined);
  }

  frame(frame: Frame, out: Event[]): void {
    const { answer } = this;
    const { text } = frame;
    answer.out = out;
    // A comment that keeps the stream alive.
    if (text === undefined) {
      if (!answer.over) out.push({ type: "ping" });
      return;
    }
    if (answer.over) return;
    const error = reportedIn(frame);
    const json = asObject(frame.json());
    answer.record?.begin(json, text, frame.event, out);
    if (error !== undefined) answer.fail(faultIn(error));
    else if (json) answer.read(json, false);
    else if (text === "[DONE]" && answer.started) answer.end();
    else answer.fail(new GatewayError(text === "[DONE]" ? "upstream_truncated" : "upstream_invalid"));
  }

  /** Some vendors send no `[DONE]`; choices that say why they ended are enough. */
  end(out: Event[]): void {
    const { answer } = this;
    if (answer.over) return;
    answer.out = out;
    if (answer.finished) answer.end();
    else answer.fail(new GatewayError("upstream_truncated"));
  }
}

/** Reads a whole completion. @throws GatewayError `upstream_invalid` where it is none. */
export function decode(text: string, source: ResponseSource): Event[] {
  const body = asObject(parsed(text));
  const out: Event[] = [];
  const answer = new Answer(source, source.native ? new Recording() : undefined);
  answer.out = out;
  const error = body && reported(body);
  if (!body || (asList(body["choices"]).length === 0 && error === undefined))
    throw new GatewayError("upstream_invalid");
  answer.record?.begin(body, text, undefined, out);
  if (error !== undefined) answer.fail(faultIn(error));
  else answer.read(body, true);
  if (!answer.over) answer.end();
  return out;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new GatewayError("upstream_invalid", { cause });
  }
}
