import t from "tap";
import { checkCallerType } from "../../src/core/caller.ts";

const key = { id: "k", name: "ci" };

t.test("what a plugin sets as the caller is checked for its types", async (t) => {
  const whole = {
    ...key,
    group: "a/b",
    owner: "o",
    models: ["m"],
    paths: [],
    addresses: ["::1"],
    tags: { a: "b" },
    expires: 1,
  };
  for (const caller of [key, whole]) t.doesNotThrow(() => checkCallerType(caller), JSON.stringify(caller));
  for (const [caller, message] of [
    ["bob", "The caller is no object."],
    [null, "The caller is no object."],
    [[], "caller.id is not a text."],
    [{ id: 7, name: "n" }, "caller.id is not a text."],
    [{ id: "i" }, "caller.name is not a text."],
    [{ ...key, models: "m" }, "caller.models is not a list of texts."],
    [{ ...key, paths: [1] }, "caller.paths is not a list of texts."],
    [{ ...key, tags: { a: 1 } }, "caller.tags are not texts by name."],
    [{ ...key, tags: "a" }, "caller.tags are not texts by name."],
    [{ ...key, expires: Number.NaN }, "caller.expires is not a number of milliseconds."],
    [{ ...key, expires: "tomorrow" }, "caller.expires is not a number of milliseconds."],
  ] as const)
    t.throws(() => checkCallerType(caller as never), { name: "TypeError", message }, JSON.stringify(caller));
});
