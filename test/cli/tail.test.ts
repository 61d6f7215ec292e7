import t from "tap";
import { help, USAGE } from "../../src/cli/help/tail.ts";
import { runTail } from "../../src/cli/tail.ts";
import type { Ledger } from "../../src/store/ledger.ts";
import { asking, startGateway } from "../support/gateway.ts";
import { plainEntry } from "../support/plain-entry.ts";
import { recordingTerminal } from "../support/terminal.ts";
import { until } from "../support/until.ts";

const YAML = 'providers: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }\n';

t.test("requests that match are printed as they end, once each", async (t) => {
  const { url, gateway, folder } = await startGateway(t, YAML);
  let looks = 0;
  const ledger = Object.create(gateway.stores.ledger) as Ledger;
  ledger.entries = async function* (query) {
    yield* gateway.stores.ledger.entries(query);
    looks++;
  };
  const ask = async (model: string) => {
    const body = JSON.stringify({ model, messages: [{ role: "user", content: "Hello" }] });
    const answer = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers: asking(), body });
    await answer.text();
  };
  let models: Parameters<typeof runTail>[3]["models"] = () => [{ id: "echo", aliases: ["repeat"] }];
  const tail = (args: string[], signal?: AbortSignal) => {
    const { io, lines: out } = recordingTerminal({ folder });
    const stores = { keys: gateway.stores.keys, ledger };
    return { out, ended: runTail(args, io, stores, { zone: () => "UTC", models: () => models() }, signal) };
  };
  await ask("echo");
  await gateway.stores.ledger.flush();
  const stop = new AbortController();
  const live = tail([], stop.signal);
  const broken = tail(["--status", "4xx"], stop.signal);
  await until(() => looks >= 2, "the first look of both");
  await ask("echo");
  await ask("nothing");
  await until(() => live.out.length >= 2 && broken.out.length >= 1, "two lines");
  stop.abort();
  t.equal(await live.ended, 0);
  t.equal(live.out.length, 2, "exchanges that had ended before are not shown");
  t.match(
    live.out[0],
    /^\d{4}-\d\d-\d\d [\d:]+Z {2}200 {2}completed +test {2}echo at demo:echo {2}\d+ ms {2}\d+ → \d+ tokens {2}\$0/,
  );
  t.match(broken.out, [/ 404 {2}rejected /]);
  t.equal(broken.out.length, 1);
  const all = tail(["--once", "--json"]);
  t.equal(await all.ended, 0);
  t.same(all.out.map((line) => (JSON.parse(line) as { status: number }).status).sort(), [200, 200, 404]);
  const day = tail(["--once", "--json", "--since", "yesterday"]);
  t.equal(await day.ended, 0);
  t.equal(day.out.length, 3);
  const own = tail(["--once", "--key", "test"]);
  t.equal(await own.ended, 0);
  t.equal(own.out.length, 3, "by its name");
  await t.rejects(tail(["--key", "tst"]).ended, { message: /no key "tst"; did you mean "test"\?/ });
  const other = tail(["--once", "--model", "repeat"]);
  t.equal(await other.ended, 0);
  t.equal(other.out.length, 2, "by another name of the model");
  await t.rejects(tail(["--model", "ecko"]).ended, {
    message: /--model: there is no model "ecko"; did you mean "echo"\?/,
  });
  await t.rejects(tail(["--model", "gpt-5"]).ended, { message: /no model "gpt-5"; see .* models/ });
  models = () => [];
  const removed = tail(["--once", "--model", "echo"]);
  t.equal(await removed.ended, 0);
  t.equal(removed.out.length, 2, "a model that gateway.yaml has no longer");
  models = () => undefined;
  t.equal(await tail(["--once", "--model", "ecko"]).ended, 0, "with an invalid gateway.yaml any name may be right");
  for (const status of ["bad", "700", "9xx", "0xx", "099", "42", "4x"])
    await t.rejects(tail(["--status", status]).ended, {
      message: `--status ${status}: write one of 100 to 599 like 429, or 1xx to 5xx.`,
    });
  await t.rejects(tail(["--since", "never"]).ended, { message: /--since/ });
  t.match(USAGE, /--once/);
  t.match(help, /^tail /);
});

t.test("polls look back a minute, and now and then further for longer requests, which are shown once", async (t) => {
  const { gateway, folder } = await startGateway(t, YAML);
  const MINUTE = 60_000;
  const now = Date.now();
  const looks: number[] = [];
  const request = (minutesAgo: number, lasted: number) => ({
    ...plainEntry(now - minutesAgo * MINUTE, { duration: lasted * MINUTE }),
    id: `began ${minutesAgo}, lasted ${lasted}`,
  });
  const earlier = [request(3, 1), request(90, 60), request(0.5, 0.1)];
  const ended = [request(0, 0.01), request(1.5, 2)];
  const ledger = Object.create(gateway.stores.ledger) as Ledger;
  ledger.entries = async function* ({ since = 0 }) {
    looks.push((Date.now() - since) / MINUTE);
    for (const each of [...earlier, ...(looks.length > 1 ? ended : [])]) if (each.time >= since) yield each;
  };
  const { io, lines: out } = recordingTerminal({ folder });
  const stop = new AbortController();
  const stores = { keys: gateway.stores.keys, ledger };
  const tailing = runTail(["--json"], io, stores, { zone: () => "UTC", models: () => undefined }, stop.signal);
  await until(() => looks.length >= 6, "six polls");
  stop.abort();
  await tailing;
  t.same(looks.map((minutes) => Math.round(minutes)).slice(0, 6), [60, 1, 2, 1, 4, 1]);
  t.same(
    out.map((line) => (JSON.parse(line) as { id: string }).id),
    ["began 0, lasted 0.01", "began 1.5, lasted 2"],
  );
});

t.test("the name of a caller from elsewhere does not reach the terminal with its control characters", async (t) => {
  const { gateway, folder } = await startGateway(t, YAML);
  const ledger = Object.create(gateway.stores.ledger) as Ledger;
  const entry = { ...plainEntry(Date.now()), key: "company:\u001b[2Jsub" };
  ledger.entries = async function* () {
    yield entry;
  };
  const { io, lines: out } = recordingTerminal({ folder });
  const stores = { keys: gateway.stores.keys, ledger };
  await runTail(["--once"], io, stores, { zone: () => "UTC", models: () => undefined });
  t.match(out, [/company:\?\[2Jsub/]);
});
