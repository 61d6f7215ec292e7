import t from "tap";
import { asking } from "../support/key.ts";
import { startExample } from "./example.ts";

t.test("a name that all teams use becomes the model of the caller's team", async (t) => {
  const teams = { blue: "echo", test: "echo", ghosts: "no-such-model" };
  const { url } = await startExample(t, "route-by-team", { teams });
  const ask = async (headers: Record<string, string>, model = "auto") => {
    const body = JSON.stringify({ model, messages: [{ role: "user", content: "hi" }] });
    const response = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers: asking(headers), body });
    return { status: response.status, text: await response.text() };
  };
  t.match(await ask({ "x-team": "blue" }), { status: 200, text: /"hi"/ });
  t.match(await ask({}), { status: 200, text: /"hi"/ }, "by the name of the key");
  t.match(await ask({ "x-team": "ghosts" }), { status: 404, text: /no-such-model/ });
  t.match(await ask({ "x-team": "red" }), { status: 403, text: /team_unknown/ });
  t.match(await ask({ "x-team": "ghosts" }, "echo"), { status: 200 }, "other names stay unchanged");
});
