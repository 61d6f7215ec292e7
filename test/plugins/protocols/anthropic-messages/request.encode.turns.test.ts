import t from "tap";
import { conversation, text, write } from "./speaking.ts";

t.test("system messages side by side are one, however many texts they have", async (t) => {
  const many = Array.from({ length: 150_000 }, (_, n) => text(`${n}`));
  const asked = conversation([
    ["user", text("Hi")],
    ["system", text("First.")],
    ["system", ...many],
  ]);
  const { body } = write(asked, { system_in_place: true });
  const messages = body["messages"] as { role: string; content: unknown[] }[];
  t.same(
    messages.map(({ role, content }) => [role, content.length]),
    [
      ["user", 1],
      ["system", 150_001],
    ],
  );
});
