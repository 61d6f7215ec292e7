import t from "tap";
import DenyWords from "../../examples/deny-words.ts";
import { drive } from "../../src/testing.ts";
import { asking } from "../support/key.ts";
import { countTurns } from "../support/turns.ts";
import { aroundSteps, STEP, startExample } from "./example.ts";

/** How a user says something, protocol by protocol. */
const BODIES: Record<string, (text: string) => object> = {
  "/v1/chat/completions": (content) => ({ messages: [{ role: "user", content }] }),
  "/v1/messages": (text) => ({ max_tokens: 9, messages: [{ role: "user", content: [{ type: "text", text }] }] }),
  "/v1/responses": (input) => ({ input }),
  "/v1beta/models/echo:generateContent": (text) => ({ contents: [{ role: "user", parts: [{ text }] }] }),
};

t.test("a denied word is refused in every protocol, and the same letters within another word are not", async (t) => {
  const { url } = await startExample(t, "deny-words", { words: ["bluebird", "c++"] });
  for (const [path, body] of Object.entries(BODIES)) {
    const model = path.startsWith("/v1/") ? { model: "echo" } : {};
    const say = (text: string) =>
      fetch(url + path, { method: "POST", headers: asking(), body: JSON.stringify({ ...model, ...body(text) }) });
    t.equal((await say("our bluebirds sing")).status, 200, path);
    t.equal((await say("write C++!")).status, 422, path);
    const refused = await say("Project Bluebird");
    t.equal(refused.status, 422, path);
    t.match(await refused.text(), /A word of this text is not allowed here/, path);
  }
});

t.test("a large text is searched in many turns, and a word is found wherever those end", async (t) => {
  await using driven = await drive(DenyWords, { options: { words: ["bluebird", "c++"] } });
  const protocol = "openai-chat";
  for (const word of ["Bluebird", "C++"])
    for (const text of aroundSteps(word)) t.equal((await driven.ask({ protocol, text })).status, 422);
  for (const innocent of ["xbluebird", "bluebirdx", "𝒳bluebird", "bluebird𝒳"])
    for (const text of aroundSteps(innocent)) t.equal((await driven.ask({ protocol, text })).status, 200);
  const text = "bluebirds ".repeat((64 * STEP) / 10);
  t.ok((await countTurns(t, () => driven.ask({ protocol, text }))) > 64);
});
