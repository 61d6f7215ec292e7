import t from "tap";
import { runAlerts } from "../../src/cli/alerts.ts";
import { recordingTerminal } from "../support/terminal.ts";
import { startReceiver } from "../support/webhook.ts";

t.test("a test alert is posted, and the result is printed without the address", async (t) => {
  const receiver = await startReceiver(t);
  const settings = { webhook: new URL(receiver.url), repeat: 1 };
  const { lines, io } = recordingTerminal();
  t.equal(await runAlerts(["test"], io, settings), 0);
  t.match(receiver.received, [{ state: "test" }]);
  receiver.answers.push({ status: 404, body: "no_team" });
  t.equal(await runAlerts(["test", "--json"], io, settings), 1);
  receiver.answers.push({ status: 500 });
  t.equal(await runAlerts(["test"], io, settings), 1);
  const { host } = settings.webhook;
  t.equal(lines[0], `${host} accepted the test alert.`);
  t.same(JSON.parse(lines[1] ?? ""), { host, posted: false, problem: `${host} answered 404: no_team` });
  t.equal(lines[2], `The test alert was not accepted: ${host} answered 500: ok`);
  t.notMatch(lines.join("\n"), /canary/);
});

t.test("without an address, or with an unknown argument, the missing one is named", async (t) => {
  const { io } = recordingTerminal();
  await t.rejects(runAlerts(["test"], io, undefined), { message: /no alerts: \{ webhook: \$URL \}/ });
  await t.rejects(runAlerts([], io, undefined), { message: /alerts needs a command: test/ });
  await t.rejects(runAlerts(["tset"], io, undefined), { message: /no command "tset", did you mean "test"\?/ });
});
