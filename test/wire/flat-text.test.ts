import t from "tap";
import { flatText } from "../../src/wire/flat-text.ts";

t.test("a flat copy of a slice is the same text", async (t) => {
  const whole = "HTTP/1.1 200 OK\r\nx-request-id: req_0123456789abcdef0123456789abcdef caf\xe9 \ud83d\ude00\r\n";
  for (let from = 0; from < whole.length; from++)
    for (const length of [0, 1, 2, 13, 40])
      t.equal(flatText(whole.slice(from, from + length)), whole.slice(from, from + length));
});
