import t from "tap";
import { Message } from "../../../../plugins/protocols/anthropic-messages/response.sinks.ts";

t.test("a message holds the citations of each block in their order, and changes nothing it was given", async (t) => {
  const message = new Message({ drop() {} });
  const given = { type: "text", text: "", citations: [] };
  message.start({ id: "msg_1" });
  message.open(0, given);
  for (const url of ["https://a", "https://b"]) message.cite(0, { url });
  message.close(0);
  message.open(1, { type: "text", text: "" });
  message.cite(1, { url: "https://c" });
  t.same(JSON.parse(message.whole()), {
    id: "msg_1",
    content: [
      { type: "text", text: "", citations: [{ url: "https://a" }, { url: "https://b" }] },
      { type: "text", text: "", citations: [{ url: "https://c" }] },
    ],
  });
  t.same(given.citations, []);
});
