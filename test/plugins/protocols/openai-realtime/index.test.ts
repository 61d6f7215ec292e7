import t from "tap";
import openaiRealtime from "../../../../plugins/protocols/openai-realtime/index.ts";
import { Query } from "../../../../src/wire/query.ts";

t.test("there is a WebSocket on its path, whose query names the model, and nothing else", async (t) => {
  const { socket, locate, paths } = openaiRealtime;
  t.same(paths, ["/v1/realtime"]);
  t.equal(locate("/v1/realtime", "", new Query()), undefined);
  t.match(socket?.locate("/v1/realtime", "", new Query("model=gpt%20x")), {
    model: "gpt x",
    operation: { name: "realtime" },
  });
  t.notOk(socket?.locate("/v1/realtime", "", new Query())?.model);
  t.equal(socket?.locate("/v1/other", "", new Query("model=x")), undefined);
});

t.test("calls that create keys are recognised", async (t) => {
  const mints = (method: string, path: string) => openaiRealtime.createsKey?.(method, path);
  for (const path of [
    ...["/realtime/sessions", "/realtime/client_secrets", "/realtime/transcription_sessions"],
    ...[
      "/realtime/translations/client_secrets",
      "/chatkit/sessions",
      "/live/sessions",
      "/live/sessions/live_1/fork",
      "/v1/realtime/sessions",
    ],
    ...["/organization/admin_api_keys", "/organization/projects/p_1/service_accounts", "/organization/api_keys"],
    ...["/organization/projects/p_1/api_keys", "/realtime/calls", "/openai/realtimeapi/sessions"],
    ...["/realtime/client_secrets:", "/realtime/client_secrets.json"],
  ])
    t.ok(mints("POST", path), path);
  for (const path of [
    "/realtime/calls/c_1/accept",
    "/realtime",
    "/my-realtime/sessions",
    "/chatkit/sessions/x/cancel",
    "/files",
  ])
    t.notOk(mints("POST", path), path);
  t.notOk(mints("GET", "/realtime/sessions"));
});

t.test("usage is the sum of all response.done messages; other messages report none", async (t) => {
  const usage = openaiRealtime.socket?.usageReader();
  const done = (more: object) => Buffer.from(JSON.stringify({ type: "response.done", response: { id: "r", ...more } }));
  const one = { input_tokens: 10, output_tokens: 5, input_token_details: { cached_tokens: 4, audio_tokens: 3 } };
  const other = { input_tokens: 1, output_tokens: 2, output_token_details: { audio_tokens: 2 } };
  const first = usage?.(done({ usage: one }));
  t.match(first, { in: { total: 10, cached: 4, audio: 3 }, out: { total: 5 } });
  const both = usage?.(done({ usage: other }), first);
  t.match(both, { in: { total: 11, cached: 4, audio: 3 }, out: { total: 7, audio: 2 }, raw: other });
  t.equal(both?.in.image, undefined);
  for (const message of [
    ...['{"type":"response.output_audio.delta","delta":"AAAA"}', '{"type":"x","text":"\\"response.done\\""}'],
    ...[
      '"response.done" but no JSON',
      '{"type":"response.done"}',
      '{"type":"response.done","response":{"usage":null}}',
    ],
  ])
    t.equal(usage?.(Buffer.from(message), both), both, message);
});
