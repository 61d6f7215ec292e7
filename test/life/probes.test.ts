import t from "tap";
import { startGateway } from "../support/gateway.ts";

t.test(
  "load balancers read from the public side, without a key, whether to send requests, and nothing else",
  async (t) => {
    const yaml = 'providers: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }\n';
    const { url, gateway } = await startGateway(t, yaml);
    const asked = async (path: string, method = "GET") => {
      const answer = await fetch(url + path, { method });
      return [answer.status, await answer.text()];
    };
    t.same(await asked("/livez"), [200, "ok\n"]);
    t.same(await asked("/readyz"), [200, "ok\n"]);
    t.same(await asked("/readyz", "HEAD"), [200, ""]);
    t.equal((await asked("/readyz", "POST"))[0], 404);
    gateway.prepareStop();
    t.same(await asked("/livez"), [200, "ok\n"]);
    t.same(await asked("/readyz"), [503, "stopping\n"]);
  },
);
