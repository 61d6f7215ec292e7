import t from "tap";
import { asEvent } from "../../../support/openai-recordings.ts";
import { MEMBERS } from "./members.ts";

for (const [folder, { protocol }] of Object.entries(MEMBERS)) {
  t.test(`${folder}: its name is its folder's`, async (t) => {
    t.equal(protocol.name, folder);
  });

  t.test(`${folder}: a path it does not list is none of its operations`, async (t) => {
    for (const path of ["/v1", "/v1/models", `${protocol.paths[0]}/x`, "constructor"]) {
      t.equal(protocol.locate(path, "", new URLSearchParams()), undefined);
    }
  });

  t.test(`${folder}: a provider sees the credential as a bearer token`, async (t) => {
    t.same(protocol.credential("secret"), ["authorization", "Bearer secret"]);
  });

  t.test(`${folder}: headers that name the client's organisation stay here`, async (t) => {
    const passes = (name: string) =>
      protocol.headers.some((entry) => (entry.endsWith("*") ? name.startsWith(entry.slice(0, -1)) : entry === name));
    for (const name of ["openai-organization", "openai-project", "authorization", "cookie", "host"])
      t.notOk(passes(name), name);
    for (const name of ["openai-beta", "idempotency-key", "x-stainless-os"]) t.ok(passes(name), name);
  });
}

for (const folder of ["openai-chat", "openai-completions", "openai-images", "openai-responses"]) {
  t.test(`${folder}: only a frame with a usage object holds usage`, async (t) => {
    const { holdsUsage } = (MEMBERS[folder] as (typeof MEMBERS)[string]).protocol;
    t.ok(holdsUsage(asEvent({ usage: { input_tokens: 1 } })));
    t.notOk(holdsUsage(asEvent({ usage: null })));
    t.ok(holdsUsage(asEvent({ response: { usage: { input_tokens: 1 } } })));
    t.notOk(holdsUsage(asEvent({ response: { usage: null } })));
    t.notOk(holdsUsage(asEvent({ type: "response.output_text.delta", delta: '"usage":{' })));
  });
}
