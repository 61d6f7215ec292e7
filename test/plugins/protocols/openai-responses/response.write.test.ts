import t from "tap";
import { answer, outputOf, text, valuesOf, wishing, written } from "./answers.ts";

t.test("text is told letter by letter and then again as a whole", async (t) => {
  const frames = written(answer([[{ kind: "text" }, text("Hel"), text("lo")]]));
  const names = frames.map(({ name }) => name?.replace("response.", ""));
  t.same(names, [
    ...["created", "in_progress", "output_item.added", "content_part.added"],
    ...["output_text.delta", "output_text.delta", "output_text.done", "content_part.done"],
    ...["output_item.done", "completed"],
  ]);
  const at = { item_id: "msg_up-1_0", output_index: 0, content_index: 0 };
  t.same(valuesOf(frames)[4], {
    ...{ type: "response.output_text.delta", sequence_number: 4 },
    ...{ ...at, delta: "Hel", logprobs: [] },
  });
});

t.test("a thought comes with an envelope, whether it can be read or not", async (t) => {
  const opaque = { protocol: "anthropic-messages", kind: "signature", data: "sig" };
  const frames = written(
    answer([
      [{ kind: "reasoning" }, text("Hm."), { type: "opaque", opaque }],
      [{ kind: "reasoning", summary: true }, text("One", 0), text("Two", 1), text("!", 1)],
      [
        { kind: "reasoning", redacted: true },
        { type: "opaque", opaque: { ...opaque, kind: "redacted", data: "x" } },
      ],
    ]),
  );
  const part = (text: string) => ({ type: "summary_text", text });
  t.same(outputOf(frames), [
    { id: "rs_up-1_0", type: "reasoning", summary: [part("Hm.")], encrypted_content: "gw1.signature.sig." },
    { id: "rs_up-1_1", type: "reasoning", summary: [part("One"), part("Two!")] },
    { id: "rs_up-1_2", type: "reasoning", summary: [], encrypted_content: "gw1.redacted.x." },
  ]);
});

t.test("texts and refusals that follow each other are one message", async (t) => {
  const frames = written(
    answer(
      [
        [{ kind: "text" }, text("Well.")],
        [{ kind: "refusal" }, text("No.")],
      ],
      "refusal",
    ),
  );
  const [message, ...more] = outputOf(frames);
  t.match(message, {
    content: [
      { type: "output_text", text: "Well." },
      { type: "refusal", refusal: "No." },
    ],
  });
  t.same(more, []);
  t.match(valuesOf(frames).at(-1), { type: "response.completed", response: { status: "completed" } });
});

t.test("citations are annotations of the text that they back", async (t) => {
  const cite = (citation: object) => ({ type: "citation", citation }) as const;
  const context = wishing();
  const frames = written(
    answer([
      [
        { kind: "text" },
        cite({ url: "https://a.example", title: "A" }),
        text("Hello"),
        cite({ url: "https://b.example", start: 1, end: 3, quote: "ell" }),
        cite({ title: "A document" }),
      ],
    ]),
    context,
  );
  const added = valuesOf(frames).filter(({ type }) => type === "response.output_text.annotation.added");
  const expected = [
    { type: "url_citation", url: "https://b.example", title: "", start_index: 1, end_index: 3 },
    { type: "url_citation", url: "https://a.example", title: "A", start_index: 0, end_index: 5 },
  ];
  t.same(
    added.map(({ annotation }) => annotation),
    expected,
  );
  t.match(outputOf(frames), [{ content: [{ annotations: expected }] }]);
  t.equal(context.lost.length, 2, "the quote and the document");
});

t.test("likelihoods of tokens are told with their text", async (t) => {
  const one = { token: "Hi", logprob: -0.5, bytes: [72, 105], top_logprobs: [] };
  for (const logprobs of [[one], { content: [one] }]) {
    const frames = written(answer([[{ kind: "text" }, { type: "text", text: "Hi", logprobs }]]));
    t.match(valuesOf(frames)[4], { delta: "Hi", logprobs: [one] });
    t.match(outputOf(frames), [{ content: [{ logprobs: [one] }] }]);
  }
});

t.test("an image is the result of an image call; sound has no form", async (t) => {
  const context = wishing();
  const frames = written(
    answer([
      [
        { kind: "media", media: "image", mime: "image/webp" },
        { type: "media", base64: "aGk=" },
      ],
      [
        { kind: "media", media: "audio" },
        { type: "media", base64: "aGk=" },
      ],
    ]),
    context,
  );
  t.match(outputOf(frames), [{ type: "image_generation_call", result: "aGk=", output_format: "webp" }]);
  t.same(context.lost, ["output.audio"]);
});
