import t from "tap";
import type { Head } from "../../src/core/head.ts";
import type { Protocol } from "../../src/core/protocol.ts";
import { streamCheck } from "../../src/core/stream-check.ts";
import { Frame } from "../../src/wire/frame.ts";

const protocol = {
  ending: ({ text }: Frame) => (text === "[DONE]" || text?.includes("stop") ? "complete" : undefined),
} as Protocol;
const event = (text: string) => new Frame("event", Buffer.from(text));
const NEXT = event('data: {"a":1}\n\n');
const LAST = event("data: [DONE]\n\n");
const END = new Frame("end", Buffer.alloc(0));

function checked() {
  const head = {} as Head;
  return { head, check: streamCheck(head, "own.response", protocol) };
}

t.test("an event whose data is not JSON, or which has no blank line at its end, is an error", (t) => {
  const { check } = checked();
  for (const [made, message] of [
    ["data: {\n\n", /not JSON/],
    ["data: DONE]\n\n", /not JSON/],
    ["data: {}\n", /blank line/],
    ["data: {}\r\n", /blank line/],
    ["data: {}", /blank line/],
  ] as const)
    t.throws(() => check(NEXT, [event(made)]), { name: "TypeError", message }, made);
  t.throws(() => check(NEXT, [new Frame("element", Buffer.from(",{"))]), { message: /not JSON/ });
  for (const made of ["data: {}\n\n", "data: {}\r\n\r\n", "data: {}\r\r", ": comment\n\n", "data: [DONE]\n\n"])
    t.doesNotThrow(() => check(NEXT, [event(made)]), made);
  t.doesNotThrow(() => check(NEXT, [new Frame("element", Buffer.from("]"))]), "the end of an array");
  t.end();
});

t.test("what the provider has sent so is no error of the stage", (t) => {
  const { check } = checked();
  const odd = event("data: ping\n\n");
  check(odd, []);
  t.doesNotThrow(() => check(NEXT, [odd, NEXT]), "returned later");
  t.doesNotThrow(() => check(odd, [event("id: 1\ndata: ping\n\n")]), "with the same data");
  t.doesNotThrow(() => check(event("data: {}\n"), [event('data: {"b":1}\n')]), "the last event, cut");
  t.end();
});

t.test("it is noted which stage has lost the ending, until that stage returns one", (t) => {
  const { head, check } = checked();
  check(NEXT, []);
  t.equal(head.endingLostBy, undefined);
  check(LAST, []);
  t.equal(head.endingLostBy, "own.response");
  check(END, [NEXT, LAST, END]);
  t.equal(head.endingLostBy, undefined);
  check(LAST, [event('data: {"stop":true}\n\n')]);
  t.equal(head.endingLostBy, undefined, "it is replaced by another one");
  t.end();
});
