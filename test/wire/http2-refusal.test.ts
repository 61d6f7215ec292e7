import t from "tap";
import { HTTP2_MESSAGE, http2Refusal } from "../../src/wire/http2-refusal.ts";

t.test("the refusal is an empty SETTINGS frame and a GOAWAY with HTTP_1_1_REQUIRED and the reason", async (t) => {
  const bytes = http2Refusal();
  t.equal(bytes.subarray(0, 9).toString("hex"), "000000040000000000");
  const length = (8 + HTTP2_MESSAGE.length).toString(16).padStart(6, "0");
  t.equal(bytes.subarray(9, 26).toString("hex"), `${length}0700${"00000000".repeat(2)}0000000d`);
  t.equal(bytes.subarray(26).toString(), HTTP2_MESSAGE);
});
