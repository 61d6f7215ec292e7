import t from "tap";
import { ask, BODY, page, passed, provider, yaml } from "../support/limited.ts";
import { eventually, startProcess } from "../support/process.ts";

t.test("a gateway that was killed remembers what was spent, and nothing is reserved by the dead", async (t) => {
  const upstream = await provider(t);
  const file = yaml(upstream.origin, "$0.10");
  const first = await startProcess(t, file);
  t.equal(passed(await Promise.all(Array.from({ length: 6 }, () => ask(first.url)))), 6);
  const hanging = Array.from({ length: 4 }, () => ask(first.url, BODY.replace("{", '{"user":"hang",')));
  await eventually(() => upstream.seen.length === 10, "the requests that hang");
  t.equal(await ask(first.url), 429, "six are spent, four are reserved");
  await first.end("SIGKILL");
  await Promise.all(hanging);
  const second = await startProcess(t, file, { folder: first.folder });
  const statuses = await Promise.all(Array.from({ length: 20 }, () => ask(second.url)));
  t.equal(passed(statuses), 4, "what hung came to nothing");
  t.match(await page(second), [{ budgets: [{ spent: 0.1, reserved: 0 }] }, { budgets: [{ spent: 0.1, reserved: 0 }] }]);
  t.equal(await second.end(), 0);
  const third = await startProcess(t, file, { folder: first.folder });
  t.equal(await ask(third.url), 429);
});
