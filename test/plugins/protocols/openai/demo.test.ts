import t from "tap";
import { collect, demoOf, withSdks } from "../../../support/openai-sdks.ts";
import { eventsIn } from "../../../support/recorded.ts";
import { CHUNKED, MEMBERS } from "./members.ts";

for (const [folder, { protocol, ask }] of Object.entries(MEMBERS)) {
  t.test(`${folder}: models named after errors refuse in the protocol's shape`, (t) =>
    withSdks(t, protocol, async (t, client) => {
      await t.rejects(ask(client, "error-400"), { name: "Error", status: 400, type: "invalid_request_error" });
      await t.rejects(ask(client, "error-401"), {
        status: 401,
        code: "invalid_api_key",
        type: "invalid_request_error",
      });
      await t.rejects(ask(client, "error-429"), { status: 429, code: "rate_limit_exceeded" });
      await t.rejects(ask(client, "error-500"), { name: "Error", status: 500, type: "server_error" });
      await t.rejects(ask(client, "error-503"), { name: "Error", status: 503, type: "server_error" });
      await t.rejects(ask(client, "error-stream"), { name: "Error", status: 500, type: "server_error" });
      await t.rejects(ask(client, "nope"), { status: 404, code: "model_not_found", param: "model" });
    }),
  );
}

for (const [folder, { protocol, path, body, stream }] of Object.entries(CHUNKED)) {
  t.test(`${folder}: a stream that fails or is interrupted yields what came before and then throws`, (t) =>
    withSdks(t, protocol, async (t, client) => {
      for (const model of ["error-stream", "cut"]) {
        const { items, error } = await collect(await stream(client, model));
        if (model === "error-stream") t.ok(items.length > 3);
        t.ok(error instanceof Error, `${model} throws`);
      }
    }),
  );

  t.test(`${folder}: usage is in a stream only when requested`, async (t) => {
    const eventsWith = (more: object) => {
      const { frames } = demoOf(protocol, path, { model: "echo", ...body, stream: true, ...more });
      return eventsIn(frames.map((frame) => String(frame.bytes)).join(""));
    };
    t.notOk(eventsWith({}).some(({ text }) => text?.includes("usage")));
    t.equal(eventsWith({}).filter(protocol.holdsUsage).length, 0);
    const asked = eventsWith({ stream_options: { include_usage: true } });
    t.equal(asked.filter((frame) => protocol.includeUsage?.extra(frame)).length, 1);
    t.equal(asked.filter(protocol.holdsUsage).length, 1);
    t.equal(asked.at(-1)?.text, "[DONE]");
  });
}
