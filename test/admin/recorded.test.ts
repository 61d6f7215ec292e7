import t from "tap";
import { KEY } from "../support/key.ts";
import { startAdmin, TOKEN, VIEWER, WITH_TOKENS } from "./support.ts";

const as = (token: string) => ({ headers: { authorization: `Bearer ${token}` } });

t.test("recorded requests are shown to admins only, and each view is in the audit trail", async (t) => {
  const chain = "[record, sse, auth, models, rewrite, usage, record]";
  const record = JSON.stringify({ sample: 1, file: `${t.testdir()}/recorded.db` });
  const yaml = `${WITH_TOKENS}chains: { llm: ${chain} }\nplugins: { record: ${record} }\n`;
  const { url, ask } = await startAdmin(t, yaml);
  const answer = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${KEY}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "echo", messages: [{ role: "user", content: `My key is ${KEY}, keep it.` }] }),
  });
  await answer.text();
  const path = `/api/requests/${answer.headers.get("x-request-id")}/recorded`;
  t.match(await ask("GET", path), { status: 401 });
  t.match(await ask("GET", path, as(VIEWER)), { status: 403, body: { error: { message: /Only admins may read/ } } });
  t.same((await ask("GET", "/api/audit", as(TOKEN))).body.entries, [], "a refused user gets no entry");
  const { status, body } = await ask("GET", path, as(TOKEN));
  t.equal(status, 200);
  t.match(body.recorded, {
    request: { first: "POST /v1/chat/completions", body: /My key is \*\*\*, keep it\./ },
    answer: { first: "200", encoding: "text" },
    attempts: [{ target: "demo:echo", request: { body: /"model":"echo"/ }, answer: { first: "200" } }],
  });
  t.notMatch(JSON.stringify(body), KEY);
  t.match((await ask("GET", "/api/audit", as(TOKEN))).body.entries, [
    { action: "requests.recorded", subject: answer.headers.get("x-request-id") },
  ]);
  t.match(await ask("GET", "/api/requests/nobodys/recorded", as(TOKEN)), { status: 404 });
  t.match(await ask("POST", path, as(TOKEN)), { status: 405 });
});

t.test("without the plugin nothing is recorded", async (t) => {
  const { ask } = await startAdmin(t);
  t.match(await ask("GET", "/api/requests/any/recorded"), {
    status: 404,
    body: { error: { message: /was not recorded/ } },
  });
});
