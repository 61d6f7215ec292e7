import { randomBytes } from "node:crypto";
import t from "tap";
import { picturesIn } from "../../../plugins/limits/worst.ts";

const base64 = (bytes: number) => randomBytes(bytes).toString("base64");
const body = (...parts: unknown[]) =>
  Buffer.from(JSON.stringify({ model: "m", messages: [{ role: "user", content: parts }] }));
const picture = (data: string, type = "image/png") => ({
  type: "image_url",
  image_url: { url: `data:${type};base64,${data}` },
});
const text = { type: "text", text: "What do you see? ".repeat(400) };

/** In pieces of so many bytes. */
const cut = (whole: Buffer, size: number): Buffer[] =>
  Array.from({ length: Math.ceil(whole.length / size) }, (_, i) => whole.subarray(i * size, (i + 1) * size));

t.test("pictures are found by looks here and there, in one piece and in several", async (t) => {
  const [one, two] = [base64(30_000), base64(200_000)];
  const whole = body(text, picture(one), text, picture(two, "image/jpeg"), text);
  const found = picturesIn([whole]);
  t.equal(found?.count, 2);
  const bytes = one.length + two.length + "data:image/png;base64,data:image/jpeg;base64,".length;
  t.equal(found?.bytes, bytes);
  for (const size of [65_536, 50_000, 8192]) {
    const pieces = picturesIn(cut(whole, size));
    if (pieces) t.same(pieces, found, `pieces of ${size}`);
  }
  t.same(picturesIn([body(text)]), { count: 0, bytes: 0 });
});

t.test("base64 that is not for sure a picture's is left to who reads the conversation", async (t) => {
  const data = base64(30_000);
  const others: Record<string, Buffer> = {
    "a text that looks like a picture": body({ type: "text", text: `data:image/png;base64,${data}` }),
    "a text of letters": body({ type: "text", text: data }),
    "a sound": body({ type: "input_audio", input_audio: { data, format: "wav" } }),
    "a file": body({ type: "file", file: { file_data: `data:application/pdf;base64,${data}` } }),
    "a picture that is none": body(picture(`${data} and then many words `.padEnd(90_000, "word "))),
    "a picture beside a sound": body(picture(data), { type: "input_audio", input_audio: { data, format: "wav" } }),
  };
  for (const [name, whole] of Object.entries(others)) t.equal(picturesIn([whole]), undefined, name);
});
