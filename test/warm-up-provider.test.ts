import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import t from "tap";
import { isWhole, WarmUpProvider } from "../src/warm-up-provider.ts";

t.test("the warm-up's provider sends the first recorded answer that matches a request", async (t) => {
  const folder = t.testdir();
  const file = join(folder, "answers.json");
  const headers = { "x-request-id": "req_1" };
  writeFileSync(
    file,
    JSON.stringify([
      {
        path: "/chat",
        with: '"stream":true',
        headers,
        events: [{ data: { n: 1 } }, { event: "e", data: 2 }, { data: "[DONE]" }],
      },
      { path: "/chat", headers, body: { whole: true } },
    ]),
  );
  const provider = await WarmUpProvider.start(pathToFileURL(file));
  t.teardown(() => provider.close());
  const send = async (path: string, body: unknown) => {
    const answer = await fetch(`${provider.url}${path}`, { method: "POST", body: JSON.stringify(body) });
    return [answer.status, answer.headers.get("x-request-id"), await answer.text()];
  };
  t.same(await send("/chat/1", { stream: false }), [200, "req_1", '{"whole":true}']);
  t.same(await send("/chat/1", { stream: true }), [
    200,
    "req_1",
    'data: {"n":1}\n\nevent: e\ndata: 2\n\ndata: [DONE]\n\n',
  ]);
  t.same(await send("/other", {}), [404, null, ""]);
});

t.test("a message is whole with its content-length, or its last chunk", async (t) => {
  const head = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n";
  t.same([head.slice(0, -1), `${head}ab`, `${head}abc`].map(isWhole), [false, false, true]);
  const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n";
  t.same([chunked, `${chunked}0\r\n\r\n`].map(isWhole), [false, true]);
});
