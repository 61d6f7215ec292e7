import t from "tap";
import { say, startExample } from "./example.ts";

t.test("every response has the header", async (t) => {
  const gateway = await startExample(t, "stamp", { text: "rack 7" });
  t.equal((await say(gateway, "hi")).headers.get("x-served-by"), "rack 7");
});
