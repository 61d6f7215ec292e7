import type { AdminGateway } from "../admin/admin-gateway.ts";
import { limitStatuses } from "../admin/budgets.ts";
import { LIMIT_MARKS, type LiveProvider, PROVIDERS } from "../admin/questions.ts";
import { UNKNOWN_STATE } from "../admin/readiness.ts";
import { Calendar } from "../core/calendar.ts";
import { eachPeriod, formatDollars, limitOwner } from "../core/limit-messages.ts";
import type { BudgetMark, TimedBudgetMark } from "../store/budget-marks.ts";
import { NEARLY_SPENT } from "../store/limit-results.ts";
import type { Alerts } from "./alerts.ts";

/** Milliseconds between checks. */
const CHECK_INTERVAL = 5000;
/** Failed checks in a row of ledger, limiter or workers before an alert is raised: most such conditions are short. */
const CHECKS_BEFORE_ALERT = 3;

interface WatchedGateway extends AdminGateway {
  /** Returns budget marks of limits that this process counts for others. */
  takeMarks?(): TimedBudgetMark[];
}

/**
 * Checks a gateway with all of its processes every few seconds, and raises alerts. It runs outside of request handling, so that
 * requests pay nothing for it.
 */
export class AlertWatch {
  private readonly timer: NodeJS.Timeout;
  private runningCheck: Promise<void> | undefined;
  private readonly failedChecks = new Map<string, number>();
  /** Budgets with an alert, by its subject. */
  private readonly budgets = new Map<string, BudgetAlert>();
  private adopted = false;

  constructor(
    private readonly gateway: WatchedGateway,
    private readonly alerts: Alerts,
    interval = CHECK_INTERVAL,
  ) {
    this.timer = setInterval(() => void this.check(), interval).unref();
  }

  close(): void {
    clearInterval(this.timer);
    this.alerts.close();
  }

  /** Runs one check; a call during a check waits for that one. */
  check(): Promise<void> {
    this.runningCheck ??= this.checkOnce().finally(() => (this.runningCheck = undefined));
    return this.runningCheck;
  }

  private async checkOnce(): Promise<void> {
    const { config } = this.gateway;
    if (!config.alerts) return;
    await this.adoptAlerts().catch(() => {});
    this.checkReload();
    this.checkParts();
    await this.checkBudgets().catch(() => {});
    await this.checkProviders().catch(() => {});
  }

  /** Takes over alerts that were posted before a restart, so that their end is noticed. A budget's alert has none. */
  private async adoptAlerts(): Promise<void> {
    if (this.adopted) return;
    const subjects = await this.gateway.stores.claims.unresolved();
    this.alerts.adopt(subjects.filter((subject) => !subject.startsWith("budget ")));
    this.adopted = true;
  }

  private checkReload(): void {
    const { problem } = this.gateway.reloads.last ?? {};
    if (problem === undefined) this.alerts.resolve("reload", "gateway.yaml was reloaded.");
    else
      this.alerts.raise({
        ...{ subject: "reload", state: problem },
        text: `gateway.yaml was not reloaded, and the previous configuration stays in use: ${problem}`,
      });
  }

  private checkParts(): void {
    const { store = "ok", limits = "ok", gateway } = this.gateway.readiness().parts;
    if (gateway === "stopping") return;
    const { wanted, up } = this.gateway.workerCounts ?? { wanted: 1, up: 1 };
    this.trackCondition("workers", up < wanted ? `${up} of ${wanted}` : "ok", {
      bad: `${up} of ${wanted} workers serve: see the log for why the others ended or do not start.`,
      well: "All workers serve again.",
    });
    this.trackCondition("ledger", store, {
      bad: "The ledger cannot be written, or is behind: its rows wait in the journal, or in memory if the journal cannot be written either.",
      well: "The ledger has all rows again.",
    });
    this.trackCondition("limits", limits, {
      bad: "Limits cannot be counted together with the other gateways: this one enforces its share of each.",
      well: "Limits are counted together with the other gateways again.",
    });
  }

  private trackCondition(subject: string, state: string, { bad, well }: { bad: string; well: string }): void {
    // Neither good nor bad.
    if (state === UNKNOWN_STATE) return;
    const times = state === "ok" ? 0 : (this.failedChecks.get(subject) ?? 0) + 1;
    this.failedChecks.set(subject, times);
    if (times >= CHECKS_BEFORE_ALERT) this.alerts.raise({ subject, state, text: bad });
    else if (times === 0) this.alerts.resolve(subject, well);
  }

  private async checkBudgets(): Promise<void> {
    const all = (await this.gateway.askAll(LIMIT_MARKS, null)).flat();
    for (const mark of [...(this.gateway.takeMarks?.() ?? []), ...all]) {
      const { kind, name, per, limit } = mark;
      const shown = kind === "key" ? ((await this.gateway.stores.keys.show(name).catch(() => {}))?.name ?? name) : name;
      const subject = `budget ${kind} ${shown} ${formatDollars(limit)} ${per}`.replaceAll(/ +/g, " ");
      this.raiseBudget(subject, { mark, shown });
    }
    await this.repeatBudgets();
  }

  private raiseBudget(subject: string, budget: BudgetAlert): void {
    const { per, share, time } = budget.mark;
    const { start } = new Calendar(this.gateway.config.timezone).span(per, time);
    this.budgets.set(subject, budget);
    this.alerts.raise({
      subject,
      // A spent budget has the same state once it refuses requests, so that no second alert is sent. A new period
      // has states of its own, all higher than those of the one before.
      state: `since ${new Date(start).toISOString()}: ${String(share * 100).padStart(3, "0")} %`,
      ordered: true,
      text: budgetAlertText(budget.mark, budget.shown),
    });
  }

  /** Repeats the alerts of budgets that are still nearly spent; marks come only once. */
  private async repeatBudgets(): Promise<void> {
    const due = [...this.budgets].filter(([subject]) => this.alerts.isDue(subject));
    if (due.length === 0) return;
    const statuses = await limitStatuses(this.gateway, await this.gateway.stores.keys.list());
    for (const [subject, { mark, shown }] of due) {
      const { kind, name, per, limit, soft, share } = mark;
      const budgets = statuses.find((each) => each.kind === kind && each.name === name)?.budgets;
      const spent = budgets?.find((each) => each.per === per && each.limit === limit && each.soft === soft)?.spent ?? 0;
      if (spent < NEARLY_SPENT * limit) this.budgets.delete(subject);
      else this.raiseBudget(subject, { mark: { ...mark, spent, share: spent < limit ? share : 1 }, shown });
    }
  }

  private async checkProviders(): Promise<void> {
    const answers = await this.gateway.askAll(PROVIDERS, null);
    // All workers may start again, or be too busy to answer.
    if (answers.length === 0) return;
    const found = conditionsOf(answers);
    for (const [subject, { bad, well }] of found)
      if (bad !== undefined) this.alerts.raise({ subject, state: "bad", text: bad });
      else if (well !== undefined) this.alerts.resolve(subject, well);
    // What was removed from gateway.yaml no longer needs an alert.
    for (const subject of [...this.alerts.subjects])
      if (/^(?:provider|target|credential) /.test(subject) && !found.has(subject))
        this.alerts.resolve(subject, `There is no ${subject} any more.`);
  }
}

/** A budget with an alert, and the name under which it is shown. */
interface BudgetAlert {
  readonly mark: TimedBudgetMark;
  readonly shown: string;
}

function budgetAlertText({ kind, per, limit, spent, soft, refused, share }: BudgetMark, name: string): string {
  const of = `${formatDollars(limit)}${per === "total" ? "" : ` ${eachPeriod(per)}`}`;
  const who = limitOwner({ kind, name });
  if (refused)
    return `${who} has a budget of ${of}, of which ${formatDollars(Math.max(0, limit - spent))} is left: requests are refused.`;
  const rest = share < 1 ? "" : soft ? " The budget only warns: nothing is refused." : " Further requests are refused.";
  return `${who} has spent ${formatDollars(spent)} of ${of} (${Math.floor((spent / limit) * 100)} %).${rest}`;
}

/** The condition of a subject; without both members it is not known yet. */
interface SubjectCondition {
  bad?: string;
  well?: string;
}

const switchedOffText = (what: string): string =>
  `${what} was switched off by an admin: this gateway sends nothing new there until it is switched on.`;

/** @param who does or does not accept the credential */
const credentialCondition = (
  who: string,
  { label, state }: Pick<LiveProvider["credentials"][number], "label" | "state">,
  consequence = "",
): SubjectCondition =>
  state === "refused"
    ? { bad: `${who} does not accept the credential ${label}${consequence}.` }
    : { well: `${who} accepts the credential ${label} again.` };

/** Returns the conditions of providers, targets and credentials over all processes; one that is bad in any of them is bad. */
function conditionsOf(processes: readonly (readonly LiveProvider[])[]): Map<string, SubjectCondition> {
  const found = new Map<string, SubjectCondition>();
  const note = (subject: string, condition: SubjectCondition) => {
    const known = found.get(subject);
    if (!known || (known.bad === undefined && condition.well === undefined)) found.set(subject, condition);
  };
  for (const { name: provider, switched_off: off, credentials, targets } of processes.flat()) {
    const named = `The provider ${JSON.stringify(provider)}`;
    note(
      `provider ${provider}`,
      off ? { bad: switchedOffText(named) } : { well: `${named} is no longer switched off.` },
    );
    for (const credential of credentials) {
      const others = credentials.filter((each) => each.label !== credential.label && each.state !== "refused").length;
      const left = others === 0 ? "it has no other one" : `requests use its ${others} other${others > 1 ? "s" : ""}`;
      note(`credential ${provider} ${credential.label}`, credentialCondition(named, credential, `; ${left}`));
    }
    for (const { model, state, switched_off: off, credentials: shown } of targets) {
      const target = `${provider}:${model}`;
      if (off) note(`target ${target}`, { bad: switchedOffText(target) });
      else if (state === "open") note(`target ${target}`, { bad: `${target} is suspended: it fails too often.` });
      else note(`target ${target}`, state === "closed" ? { well: `${target} has recovered.` } : {});
      for (const credential of shown) {
        const { label } = credential;
        // A credential that is refused everywhere was reported above.
        if (credentials.some((each) => each.label === label && each.state === "refused")) continue;
        note(`credential ${target} ${label}`, credentialCondition(target, credential));
      }
    }
  }
  return found;
}
