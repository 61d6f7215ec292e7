import type { Frame } from "model-gateway";

/** Maximum bytes of a whole response that is parsed for its facts: larger ones hold images or the like. */
const MAX_BODY = 1024 * 1024;
/** Maximum characters of an id, a model or a finish reason, and maximum number of different reasons. */
const [MAX_LENGTH, MAX_REASONS] = [256, 16];
/** Byte strings of frames with a finish reason. */
const ENDINGS = ["finish_reason", "stop_reason", "finishReason", '"response.completed"', '"response.incomplete"'].map(
  (text) => Buffer.from(text),
);
/** A byte string in chunks of some vendors that have none yet. */
const NOT_YET = Buffer.from('"finish_reason":null');

type Members = Record<string, unknown>;

const asMembers = (value: unknown): Members =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Members) : {};
const asList = (value: unknown): Members[] => (Array.isArray(value) ? value.map(asMembers) : []);
const text = (value: unknown): string | undefined =>
  typeof value === "string" && value !== "" ? value.slice(0, MAX_LENGTH) : undefined;

/** A response's facts about itself in any protocol: its id and model, and why it ended. */
export class AnswerFacts {
  id: string | undefined;
  model: string | undefined;
  readonly finishReasons: string[] = [];
  private first = true;
  private pieces: Buffer[] = [];
  private length = 0;

  /** Parses the first frame, and those that may have a finish reason. A whole response is parsed at its end. */
  observe({ kind, bytes }: Pick<Frame, "kind" | "bytes">): void {
    if (kind === "piece") this.add(bytes);
    else if (kind === "end") this.readWhole();
    else if (this.first || (!bytes.includes(NOT_YET) && ENDINGS.some((ending) => bytes.includes(ending)))) {
      this.first = this.id === undefined && this.model === undefined;
      this.read(bytes);
    }
  }

  private add(bytes: Buffer): void {
    this.length += bytes.length;
    if (this.length <= MAX_BODY) this.pieces.push(Buffer.from(bytes));
    else this.pieces = [];
  }

  private readWhole(): void {
    if (this.pieces.length > 0) this.parseJson(Buffer.concat(this.pieces).toString());
    this.pieces = [];
  }

  /** Parses a frame. @param bytes an event of a stream, or an element of an array */
  private read(bytes: Buffer): void {
    const lines = bytes.toString().split(/\r?\n/);
    const data = lines.filter((line) => line.startsWith("data:")).map((line) => line.slice(5));
    this.parseJson(data.length > 0 ? data.join("\n") : bytes.toString());
  }

  private parseJson(json: string): void {
    try {
      this.readMembers(asMembers(JSON.parse(json.trim().replace(/^\[|,$/g, "")) as unknown));
    } catch {
      // A comment, `[DONE]`, or not JSON: it has no facts.
    }
  }

  private readMembers(json: Members): void {
    for (const members of [json, asMembers(json["message"]), asMembers(json["response"])]) {
      this.id ??= text(members["id"]) ?? text(members["responseId"]);
      this.model ??= text(members["model"]) ?? text(members["modelVersion"]);
      const reasons = [
        text(members["stop_reason"]),
        text(asMembers(members["incomplete_details"])["reason"]),
        text(members["object"]) === "response" && members["status"] === "completed" ? "completed" : undefined,
        ...asList(members["choices"]).map((choice) => text(choice["finish_reason"])),
        ...asList(members["candidates"]).map((candidate) => text(candidate["finishReason"])),
      ];
      for (const reason of reasons) this.addReason(reason);
    }
    this.addReason(text(asMembers(json["delta"])["stop_reason"]));
  }

  private addReason(reason: string | undefined): void {
    const { finishReasons: known } = this;
    if (reason !== undefined && known.length < MAX_REASONS && !known.includes(reason)) known.push(reason);
  }
}
