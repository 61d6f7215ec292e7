import { postTestAlert } from "../alerts/alerts.ts";
import { Webhook } from "../alerts/webhook.ts";
import type { Config } from "../config/types.ts";
import { thrownMessage } from "../core/errors.ts";
import { UsageError } from "../text/format-error.ts";
import { parseVerbArguments, type Terminal, wrongCommand } from "./verb.ts";

const ALERTS_OPTIONS = { json: { type: "boolean" } } as const;

/** Runs the verb `alerts`. Returns the exit code. @throws UsageError */
export async function runAlerts(args: readonly string[], io: Terminal, settings: Config["alerts"]): Promise<number> {
  const { values, positionals } = parseVerbArguments(args, ALERTS_OPTIONS, 1);
  const [word] = positionals;
  if (word !== "test") throw wrongCommand("alerts", word, ["test"]);
  if (!settings) throw new UsageError("gateway.yaml has no alerts: { webhook: $URL }.");
  const webhook = new Webhook(io.env);
  let problem: string | undefined;
  try {
    await postTestAlert(webhook, settings.webhook);
  } catch (thrown) {
    problem = thrownMessage(thrown);
  } finally {
    webhook.close();
  }
  const { host } = settings.webhook;
  if (values.json) io.out(JSON.stringify({ host, posted: problem === undefined, ...(problem && { problem }) }));
  else if (problem === undefined) io.out(`${host} accepted the test alert.`);
  else io.err(`The test alert was not accepted: ${problem}`);
  return problem === undefined ? 0 : 1;
}
