import type { ServerResponse } from "node:http";
import t, { type Test } from "tap";
import { asking, KEY, startGateway } from "../../support/gateway.ts";
import { httpUpstream, type SeenRequest } from "../../support/upstream.ts";

const OTHER = "another-key-0123456789";

/** A provider that keeps what it is asked to make. */
async function keeping(t: Test, name: string) {
  let made = 0;
  const answer = ({ method, url, body }: SeenRequest, reply: ServerResponse) => {
    const json = { "content-type": "application/json" };
    if (method !== "POST" || url.endsWith("/cancel")) {
      reply.writeHead(200, json).end(`{"method":"${method}","url":"${url}","by":"${name}"}`);
      return;
    }
    const response = `{"id":"resp_${name}${++made}","object":"response","status":"completed","output":[]}`;
    if (!body.includes('"stream":true')) reply.writeHead(200, json).end(response);
    else
      reply
        .writeHead(200, { "content-type": "text/event-stream" })
        .write(`: hello\n\nevent: response.created\ndata: {"type":"response.created","response":${response}}\n\n`, () =>
          reply.end(`event: response.completed\ndata: {"type":"response.completed","response":${response}}\n\n`),
        );
  };
  const upstream = await httpUpstream(answer);
  t.teardown(() => upstream.close());
  return upstream;
}

/** Two providers of one model, of which `first` is asked unless something speaks for the other. */
async function pair(t: Test, first: "a" | "b" = "a") {
  const [a, b] = [await keeping(t, `${first}x`), await keeping(t, `${first}y`)];
  const { url } = await startGateway(
    t,
    `providers:
  a: { url: "${a.origin.origin}", speaks: [openai-responses] }
  b: { url: "${b.origin.origin}", speaks: [openai-responses] }
models: { only-b: { targets: [b:m] }, both: { targets: [{ to: a:m, weight: 1000000 }, { to: b:m, weight: 1 }] } }
keys: { one: { key: ${KEY} }, two: { key: ${OTHER} }, few: { key: few-models-0123456789, models: [both] } }
`,
  );
  const make = async (more: object, key = KEY) => {
    const body = JSON.stringify({ input: "Hi", ...more });
    const answer = await fetch(`${url}/v1/responses`, { method: "POST", headers: asking(bearer(key)), body });
    return { status: answer.status, text: await answer.text() };
  };
  const ask = async (method: string, path: string, key = KEY) => {
    const answer = await fetch(url + path, { method, headers: bearer(key) });
    return { status: answer.status, json: (await answer.json()) as object };
  };
  return { a, b, make, ask, idOf: (text: string) => /"(resp_\w+)"/.exec(text)?.[1] as string };
}

const bearer = (key: string) => ({ authorization: `Bearer ${key}` });

t.test("a kept answer is asked for, below its id too, where it was made, streamed or whole", async (t) => {
  const { make, ask, idOf } = await pair(t);
  for (const stream of [false, true]) {
    const id = idOf((await make({ model: "only-b", stream })).text);
    for (const [method, path, upstream] of [
      ["GET", `/v1/responses/${id}`, `/v1/responses/${id}`],
      ["GET", `/v1/responses/${id}?stream=true`, `/v1/responses/${id}?stream=true`],
      ["GET", `/responses/${id}/input_items`, `/v1/responses/${id}/input_items`],
      ["POST", `/v1/responses/${id}/cancel`, `/v1/responses/${id}/cancel`],
      ["DELETE", `/v1/responses/${id}`, `/v1/responses/${id}`],
    ] as const)
      t.same(await ask(method, path), { status: 200, json: { method, url: upstream, by: "ay" } });
  }
});

t.test("it is there for the key it was made with alone, and not once that may no longer use the model", async (t) => {
  const { a, b, make, ask, idOf } = await pair(t, "b");
  const id = idOf((await make({ model: "only-b" })).text);
  const seen = a.seen.length + b.seen.length;
  for (const key of [OTHER, "few-models-0123456789"]) {
    t.match(await ask("GET", `/v1/responses/${id}`, key), { status: 404, json: { error: { message: /No answer/ } } });
    t.match(await ask("DELETE", `/v1/responses/${id}`, key), { status: 404 });
    t.match(await make({ model: "both", previous_response_id: id }, key), {
      status: 400,
      text: /"param":"previous_response_id"/,
    });
  }
  t.equal(a.seen.length + b.seen.length, seen, "no provider was asked");
});

t.test("an answer that shall not be kept, or was never made, is not found", async (t) => {
  const { make, ask, idOf } = await pair(t);
  const id = idOf((await make({ model: "only-b", store: false })).text);
  t.match(await ask("GET", `/v1/responses/${id}zz`), { status: 404 });
  t.match(await ask("GET", "/v1/responses/resp_never"), { status: 404 });
  t.match(await ask("GET", "/v1/responses/resp_never/elsewhere"), { status: 404, json: { error: { code: /path/ } } });
  t.match(await ask("GET", "/v1/responses"), { status: 405 });
});

t.test("an answer that goes on from a kept one is asked from the provider that keeps it", async (t) => {
  const { a, b, make, idOf } = await pair(t);
  t.match(await make({ model: "both" }), { status: 200, text: /resp_ax/ });
  const id = idOf((await make({ model: "only-b" })).text);
  const before = b.seen.length;
  t.match(await make({ model: "both", previous_response_id: id }), { status: 200, text: /resp_ay/ });
  t.equal(b.seen.length, before + 1);
  t.equal(a.seen.length, 1);
  t.match(
    await make({ model: "both", previous_response_id: "resp_unknown" }),
    { status: 200 },
    "nobody knows: it passes",
  );
});
