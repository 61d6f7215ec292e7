import t from "tap";
import ModelByHour from "../../examples/model-by-hour.ts";
import { drive } from "../../src/testing.ts";

const clock = (minutes: number): string => new Date(Date.now() + minutes * 60_000).toISOString().slice(11, 16);

t.test("the hour selects the model, in every protocol", async (t) => {
  const now = { from: clock(-60), to: clock(60), model: "gemini" };
  const later = { from: clock(120), to: clock(180), model: "openai-chat" };
  for (const [hours, model] of [
    [[now], "gemini"],
    [[later, now], "gemini"],
    [[later], "anthropic-messages"],
  ] as const) {
    const options = { hours: [...hours], otherwise: "anthropic-messages" };
    await using driven = await drive(ModelByHour, { options });
    for (const protocol of driven.protocols)
      for (const stream of [false, true]) {
        const answer = await driven.ask({ protocol, stream, model: "auto" });
        t.match(answer, { status: 200, text: "Hello", sent: [{ protocol: model }] }, `${protocol}, ${stream}`);
        t.equal((await driven.ask({ protocol, stream })).sent[0]?.protocol, protocol, "any other name stays");
      }
  }
});

t.test("hours are in the configured zone, and an invalid time is refused", async (t) => {
  const hours = [{ from: "00:00", to: "23:59", model: "gemini" }];
  const options = { hours, otherwise: "gemini" };
  await t.rejects(drive(ModelByHour, { options: { ...options, zone: "Nowhere" } }), /Nowhere/);
  await t.rejects(drive(ModelByHour, { options: { hours: [{ ...hours[0], to: "24:00" }], otherwise: "m" } }), /08:30/);
});
