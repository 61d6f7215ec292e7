import t from "tap";
import { catalogue } from "../../../plugins/scrub/catalogue.ts";
import type { Head } from "../../../src/core/head.ts";
import type { Stage } from "../../../src/core/stage.ts";
import { Frame, type FrameKind } from "../../../src/wire/frame.ts";
import { HeaderList } from "../../../src/wire/headers.ts";
import { gathered } from "../../support/gathered.ts";
import { recorded } from "../../support/recorded.ts";
import { shared } from "../../support/shared.ts";
import { answeredBy, exchange, PING, scrub } from "./support.ts";

const head = (lines: string[] = []): Head => ({ status: 200, headers: new HeaderList(lines) });

/** The stage for an answer of an aggregator. */
function stageFor(protocol = "openai-chat"): Stage {
  const answered = exchange({ protocol });
  answeredBy(answered, "elsewhere");
  const stage = scrub({ aggregators: ["elsewhere"] }).response(answered, head());
  return stage ?? (() => undefined);
}

/** What leaves a stage, as text. */
function through(stage: Stage, frames: readonly Frame[]): string {
  return frames
    .flatMap((frame) => stage(frame) ?? frame)
    .map((frame) => frame.bytes.toString())
    .join("");
}

const frames = (kind: FrameKind, ...texts: string[]): Frame[] => [
  ...texts.map((text) => new Frame(kind, Buffer.from(text))),
  new Frame("end", Buffer.alloc(0)),
];

t.test("what is buffered of a whole answer is counted until it is passed on", async (t) => {
  for (const size of [1000, 5 * 1024 * 1024]) {
    const answered = exchange({ protocol: "openai-chat" });
    answeredBy(answered, "elsewhere");
    let [counted, most] = [0, 0];
    const reserve = (bytes: number) => {
      counted += bytes;
      most = Math.max(most, counted);
    };
    const stage = scrub({ aggregators: ["elsewhere"] }).response(answered, { ...head(), reserve }) as Stage;
    for (let i = 0; i < 4; i++) stage(new Frame("piece", Buffer.alloc(size, " ")));
    if (size === 1000) t.equal(counted, 4000);
    else t.equal(counted, 0, "an answer that is too long is not buffered any more");
    t.equal(most, 4 * size);
    stage(new Frame("end", Buffer.alloc(0)));
    t.equal(counted, 0);
  }
});

t.test("headers of other services are removed from every response", async (t) => {
  const lines = [
    "Content-Type",
    "a",
    "X-Kong-Proxy-Latency",
    "1",
    "cf-ray",
    "1",
    "x-request-id",
    "r",
    "Set-Cookie",
    "c",
    "retry-after",
    "1",
  ];
  const kept = ["Content-Type", "a", "x-request-id", "r", "retry-after", "1"];
  const after = (options: object) => {
    const answer = head([...lines]);
    t.equal(scrub(options).response(exchange(), answer), undefined, "and no stage is needed");
    return answer.headers.lines;
  };
  t.same(after({}), kept);
  t.same(after({ mode: "reject" }), kept);
  t.same(after({ responses: "keep" }), lines);
  t.same(after({ mode: "report" }), lines, "report removes nothing");
  t.same(after({ mode: "report", responses: "strip" }), kept, "unless it is said");
});

t.test("every mark of the catalogue in answers", async (t) => {
  for (const { where, match, only, owner } of catalogue)
    for (const pattern of match) {
      const title = `${where} ${pattern} of ${owner}`;
      const name = pattern.replace("*", "some-thing");
      if (where === "response-header") {
        const answer = head(["a", "1", name, "2"]);
        scrub().response(exchange(), answer);
        t.same(answer.headers.lines, ["a", "1"], title);
      } else if (where === "response-comment") {
        t.equal(through(stageFor(), frames("event", `: ${name}\n\n`)), PING.toString(), title);
      } else if (where === "response-body") {
        const steps = name.split(".").reverse();
        const wrap = (inner: string) =>
          steps.slice(1).reduce((json, step) => {
            const list = step.endsWith("[]");
            return `{"a":1,"${step.replace("[]", "")}":${list ? `[${json}]` : json}}`;
          }, inner);
        const out = through(stageFor(only?.[0]), frames("piece", wrap(`{"b":1,"${steps[0]}":{"x":[]}}`)));
        t.equal(out, wrap('{"b":1}'), title);
      }
    }
});

t.test("only responses of providers configured as aggregators are cleaned", async (t) => {
  const answered = exchange();
  answeredBy(answered, "honest");
  t.equal(scrub({ aggregators: ["elsewhere"] }).response(answered, head()), undefined);
  answeredBy(answered, "elsewhere");
  t.type(
    scrub({ aggregators: ["elsewhere"] }).response(answered, head()),
    "function",
    "the last attempt's provider counts",
  );
  const whole = head(["content-length", "9", "x-a", "1"]);
  scrub({ aggregators: ["elsewhere"] }).response(answered, whole);
  t.same(whole.headers.lines, ["x-a", "1"], "their answers may get shorter");
});

t.test("a whole body is cleaned however it is split", async (t) => {
  const body =
    ' \n {"id":"1","provider":"P","choices":[{"index":0,"native_finish_reason":"STOP","message":{"content":"[{\\"provider\\": 1}, \\\\"}} , {"native_finish_reason":null}],"usage":{"prompt_tokens":1,"cost":0.1,"cost_details":{"a":1},"is_byok":false}}\n';
  const left =
    ' \n {"id":"1","choices":[{"index":0,"message":{"content":"[{\\"provider\\": 1}, \\\\"}} , {}],"usage":{"prompt_tokens":1}}\n';
  for (let at = 1; at < body.length; at++)
    if (through(stageFor(), frames("piece", body.slice(0, at), body.slice(at))) !== left) t.fail(`split at ${at}`);
  t.equal(through(stageFor(), frames("piece", body)), left);
  t.equal(through(stageFor(), frames("piece", left)), left, "a clean one passes");
  t.equal(through(stageFor(), frames("piece", '{"provider": oops')), '{"provider": oops', "invalid JSON passes");
  t.equal(through(stageFor(), frames("piece")), "", "as does nothing");
});

t.test("a body too long to buffer passes unchanged", async (t) => {
  const pieces = ['{"provider":"x","a":"', ..."abcdefghi".split("").map((letter) => letter.repeat(2 << 20)), '"}'];
  t.ok(through(stageFor(), frames("piece", ...pieces)) === pieces.join(""), "untouched");
});

t.test("events are cleaned one by one, with their framing unchanged", async (t) => {
  const stage = stageFor();
  const event =
    'event: x\r\ndata:  {"a":1,"provider":"P","choices":[{"delta":{"content":"provider"},"native_finish_reason":null}]} \r\nid: 1\r\n\r\n';
  const left = 'event: x\r\ndata:  {"a":1,"choices":[{"delta":{"content":"provider"}}]} \r\nid: 1\r\n\r\n';
  t.equal(through(stage, frames("event", event)), left);
  const clean = new Frame(
    "event",
    Buffer.from('data: {"choices":[{"delta":{"content":"\\"provider\\" is a word"}}]}\n\n'),
  );
  t.equal(stage(clean), undefined, "a clean event is the very same frame");
  t.equal(through(stage, frames("event", "data: [DONE]\n\n", ": hello\n\n")), "data: [DONE]\n\n: hello\n\n");
  t.equal(
    through(stage, frames("event", ": OPENROUTER PROCESSING\n\n")),
    PING.toString(),
    "a comment that names the service becomes a ping",
  );
  const named = ": OPENROUTER PROCESSING";
  for (const line of ["\n", "\r\n", "\r"]) {
    const lines = [named, ": hello", named, 'data: {"a":1,"provider":"P"}', named, "", ""];
    const rest = [": hello", 'data: {"a":1}', "", ""];
    t.equal(through(stage, frames("event", lines.join(line))), rest.join(line), "one beside data is removed");
  }
});

t.test("elements of an array stream are cleaned with the separators around them", async (t) => {
  const stage = stageFor("gemini");
  t.equal(
    through(stage, frames("element", '[{"extra_fields":1,"a":[1]}', '\n,\r\n{"b":2,"extra_fields":{"x":"}"}}', "]")),
    '[{"a":[1]}\n,\r\n{"b":2}]',
  );
});

t.test("each protocol's envelope is cleaned", async (t) => {
  const responses = 'data: {"type":"response.completed","response":{"id":"r","usage":{"total_tokens":1,"cost":1}}}\n\n';
  t.equal(
    through(stageFor("openai-responses"), frames("event", responses)),
    'data: {"type":"response.completed","response":{"id":"r","usage":{"total_tokens":1}}}\n\n',
  );
  const messages = 'data: {"type":"message_start","message":{"id":"m","provider":"P","usage":{"input_tokens":1}}}\n\n';
  t.equal(
    through(stageFor("anthropic-messages"), frames("event", messages)),
    'data: {"type":"message_start","message":{"id":"m","usage":{"input_tokens":1}}}\n\n',
  );
});

gathered(
  t,
  "recorded answers of an aggregator lose its marks and nothing else",
  { skip: !shared("recordings") },
  async (t) => {
    const answers = recorded("openai-chat").filter(
      ({ vendor, body }) => vendor === "openrouter" && body.includes('"provider"'),
    );
    t.ok(answers.length > 20);
    for (const { id, body, kinds } of answers) {
      const streaming = kinds.includes("stream");
      const events = body.split(/(?<=\n\r?\n)/);
      const out = through(stageFor(), streaming ? frames("event", ...events) : frames("piece", body));
      const json = (text: string) =>
        (streaming ? [...text.matchAll(/^data: (\{.*)$/gm)].map(([, line = ""]) => line) : [text]).map(
          (one) => JSON.parse(one) as Record<string, unknown>,
        );
      t.same(json(out), json(body).map(unmarked), id);
    }
  },
);

/** The same by parsing: what an answer is without its marks. */
function unmarked(answer: Record<string, unknown>): unknown {
  const { provider, user_id, openrouter_metadata, ...rest } = answer;
  const { usage, choices, error } = rest as { usage?: object; choices?: object[]; error?: { metadata?: object } };
  const without = (object: object, ...names: string[]) =>
    Object.fromEntries(Object.entries(object).filter(([name]) => !names.includes(name)));
  if (usage) rest["usage"] = without(usage, "cost", "cost_details", "is_byok");
  if (choices) rest["choices"] = choices.map((choice) => without(choice, "native_finish_reason"));
  if (error?.metadata) rest["error"] = { ...error, metadata: without(error.metadata, "provider_name") };
  return rest;
}
