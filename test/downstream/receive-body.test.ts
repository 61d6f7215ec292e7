import t from "tap";
import { asking, startGateway } from "../support/gateway.ts";

t.test("an operation without a body reads none, one with a JSON body reads it completely", async (t) => {
  const running = await startGateway(
    t,
    'providers: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }\n',
  );
  const chat = (body: string) =>
    fetch(`${running.url}/v1/chat/completions`, { method: "POST", headers: asking(), body });
  t.equal((await chat('{"model":"echo","messages":[{"role":"user","content":"hi"}]}')).status, 200);
  t.equal((await chat('{"model":"echo",')).status, 400);
  const kept = await fetch(`${running.url}/v1/responses/resp_none`, { headers: asking() });
  t.match(await kept.json(), { error: { code: "object_not_found" } });
});
