import { isDeepStrictEqual } from "node:util";
import t from "tap";
import protocol from "../../../../plugins/protocols/anthropic-messages/index.ts";
import { parseCitation, writeCitation } from "../../../../plugins/protocols/anthropic-messages/wire.ts";
import { Frame } from "../../../../src/wire/frame.ts";
import { eventsIn, recorded } from "../../../support/recorded.ts";

const CITATIONS = [
  { type: "web_search_result_location", url: "https://a", title: "A", cited_text: "q", encrypted_index: "x" },
  { type: "search_result_location", source: "https://a", title: null, cited_text: "q", search_result_index: 0 },
  { type: "char_location", cited_text: "q", document_title: "D", document_index: 0, start_char_index: 1 },
  { type: "constructor", url: "https://a" },
  { url: 1, title: ["A"] },
];

t.test("a citation's address, title and quote are read", async (t) => {
  const told = [
    { url: "https://a", title: "A", quote: "q" },
    { url: "https://a", quote: "q" },
    { title: "D", quote: "q" },
    { url: "https://a" },
    {},
  ];
  t.same(CITATIONS.map(parseCitation), told);
});

t.test("a citation with a URL is written as a web search result, which is equivalent", async (t) => {
  for (const citation of CITATIONS.map(parseCitation).filter(({ url }) => url !== undefined))
    t.match(parseCitation(writeCitation(citation, () => "key")), citation);
  t.match(
    writeCitation({ url: "https://a" }, () => "key"),
    { encrypted_index: "key" },
  );
  t.equal(
    writeCitation({ title: "D", quote: "q" }, () => "key"),
    undefined,
  );
});

t.test("a value that is not an object yields nothing", async (t) => {
  for (const value of [undefined, null, 1, "x", []]) t.same(parseCitation(value), {});
});

const event = (text: string) => new Frame("event", Buffer.from(text));
const endingOf = (text: string) => protocol.ending(event(text));

t.test("message_stop completes a stream and error fails it, with or without a space after the colon", async (t) => {
  t.equal(endingOf('event: message_stop\ndata: {"type":"message_stop"}\n\n'), "complete");
  t.equal(endingOf('event:message_stop\ndata:{"type":"message_stop"}\n\n'), "complete");
  t.equal(endingOf('event: message_stop\r\ndata: {"type":"message_stop"}\r\n\r\n'), "complete");
  t.equal(
    endingOf('event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n'),
    "error",
  );
});

t.test("an event without a name is recognised by its type", async (t) => {
  t.equal(endingOf('data: {"type":"message_stop"}\n\n'), "complete");
  t.equal(endingOf('data: {"type": "error", "error": {"type": "api_error"}}\n\n'), "error");
  t.equal(endingOf('data: {"type":"message_stop"}\nevent: message_stop\n\n'), "complete");
});

t.test("a type named like a member of every object is not an end", async (t) => {
  for (const type of ["constructor", "__proto__", "toString"])
    t.equal(endingOf(`data: {"type":"${type}","error":1}\n\n`), undefined, type);
});

t.test("a text that mentions the end is not the end", async (t) => {
  const delta = {
    type: "content_block_delta",
    index: 0,
    delta: { type: "text_delta", text: '{"type":"message_stop"} event: error' },
  };
  t.equal(endingOf(`event: content_block_delta\ndata: ${JSON.stringify(delta)}\n\n`), undefined);
  t.equal(endingOf(`data: ${JSON.stringify(delta)}\n\n`), undefined);
  const call = {
    type: "content_block_start",
    index: 0,
    content_block: { type: "tool_use", input: { a: "message_stop", b: "error" } },
  };
  t.equal(endingOf(`data: ${JSON.stringify(call)}\n\n`), undefined);
});

t.test("a frame with neither an end nor an error continues the stream", async (t) => {
  for (const name of [
    "message_start",
    "message_delta",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "ping",
    "new_event",
  ])
    t.equal(endingOf(`event: ${name}\ndata: {"type":"${name}"}\n\n`), undefined, name);
  t.equal(endingOf(": a comment\n\n"), undefined);
  t.equal(endingOf("\n"), undefined);
  t.equal(protocol.ending(new Frame("piece", Buffer.from("event: message_stop\n\n"))), undefined);
  t.equal(protocol.ending(new Frame("end", Buffer.alloc(0))), undefined);
});

t.test("its ping is neither an end nor usage", async (t) => {
  const ping = new Frame("event", protocol.ping);
  t.equal(ping.event, "ping");
  t.equal(protocol.ending(ping), undefined);
  t.equal(protocol.holdsUsage(ping), false);
});

t.test("usage is searched for in two events only", async (t) => {
  const holds = (text: string) => protocol.holdsUsage(event(text));
  t.ok(holds('event: message_start\ndata: {"type":"message_start","message":{"usage": {"input_tokens":1}}}\n\n'));
  t.ok(holds('event:message_delta\ndata:{"type":"message_delta","usage":{"output_tokens":1}}\n\n'));
  t.ok(holds('data: {"type":"message_delta","usage":{"output_tokens":1}}\n\n'));
  t.notOk(
    holds(
      'event: content_block_start\ndata: {"type":"content_block_start","content_block":{"input":{"usage":{}}}}\n\n',
    ),
  );
  t.notOk(holds('event: message_stop\ndata: {"type":"message_stop"}\n\n'));
});

/** Its source spliced two answers into one. */
const SPLICED = "anthropic/vercel-ai__anthropic.anthropic-tool-search-deferred-regex.stream__0";
const streams = recorded("anthropic").filter(
  ({ id, kinds, status }) => id !== SPLICED && status < 300 && kinds.includes("stream"),
);

t.test(
  "of every recorded stream the last event, and no other, marks it as complete",
  { skip: streams.length === 0 && "no recordings" },
  async (t) => {
    const wrong = streams.filter(({ body }) => {
      const endings = eventsIn(body).map((frame) => protocol.ending(frame));
      return endings.pop() !== "complete" || endings.some((ending) => ending !== undefined);
    });
    t.same(
      wrong.map(({ id }) => id),
      [],
    );
  },
);

t.test(
  "of every recorded stream the skipped events contain no usage",
  { skip: streams.length === 0 && "no recordings" },
  async (t) => {
    const wrong = streams.filter(({ body }) => {
      const frames = eventsIn(body);
      const holding = frames.filter((frame) => protocol.holdsUsage(frame));
      const counting = frames.filter((frame) => protocol.usage(frame.json()) !== undefined);
      return holding.length === 0 || !isDeepStrictEqual(holding, counting);
    });
    t.same(
      wrong.map(({ id }) => id),
      [],
    );
  },
);

t.test("an error without a name, as proxies of compatible servers send it, ends a stream", async (t) => {
  const end = (text: string) => protocol.ending(new Frame("event", Buffer.from(text)));
  t.equal(end('data: {"error":{"message":"Incorrect API key"}}\n\n'), "error");
  t.equal(end('data: {"type":"error","error":{"message":"x"}}\n\n'), "error");
  t.equal(end('event: error\ndata: {"error":{}}\n\n'), "error");
  t.equal(end('data: {"type":"content_block_delta","delta":{"text":"an \\"error\\""},"error":{}}\n\n'), undefined);
  t.equal(end('data: {"error":null}\n\n'), undefined);
});
