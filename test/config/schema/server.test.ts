import t from "tap";
import {
  AnswersSchema,
  BodySchema,
  ConnectionsSchema,
  CrashDrainSchema,
  OverloadSchema,
  SocketsSchema,
} from "../../../src/config/schema/server.ts";

const MIB = 1024 * 1024;

t.test("sizes are in bytes, times in milliseconds; each has a default", async (t) => {
  t.match(BodySchema.parse({ limit: "1MiB", idle: "5s" }), { limit: MIB, idle: 5000, memory: 384 * MIB });
  t.same(AnswersSchema.parse({}), { memory: 256 * MIB, event: 16 * MIB });
  t.same(AnswersSchema.parse({ memory: "1GiB", event: "32MiB" }), { memory: 1024 * MIB, event: 32 * MIB });
  t.match(ConnectionsSchema.parse({}), { head_size: 16_384 });
  t.equal(CrashDrainSchema.parse("500ms"), 500);
  t.match(ConnectionsSchema.parse({}), { per_address: 256, idle: 75_000, headers: 100, target: 8192, stalled: 60_000 });
  t.match(BodySchema.parse({}), { depth: 128, names: 50_000, ratio: 100 });
  t.match(OverloadSchema.parse({ per_key: "off" }), { concurrency: 4000, queue: 1000 });
  t.match(SocketsSchema.parse({}), { message: 16 * MIB });
});

t.test("a setting that would remove a protection is refused", async (t) => {
  t.equal(BodySchema.safeParse({ patience: 0 }).success, false);
  for (const setting of [
    { per_address: 0 },
    { headers: 0 },
    { target: "127B" },
    { target: "64KiB" },
    { head_size: "1KiB" },
    { head_size: "65KiB" },
    { stalled: "off" },
  ])
    t.equal(ConnectionsSchema.safeParse(setting).success, false, JSON.stringify(setting));
  for (const event of ["63KiB", "65MiB"]) t.equal(AnswersSchema.safeParse({ event }).success, false, event);
  for (const time of ["off", "0s", "11m"]) t.equal(CrashDrainSchema.safeParse(time).success, false, time);
  for (const setting of [{ depth: 0 }, { depth: 257 }, { names: 0 }, { names: 200_001 }, { ratio: 0 }])
    t.equal(BodySchema.safeParse(setting).success, false, JSON.stringify(setting));
});
