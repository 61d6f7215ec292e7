/** Spending, grouped as the URL says, compared with the period before, and by day. */

import { budgetText, count, money, percent } from "../common/format.js";
import { Card, html, Link, Ready, useMemo, When } from "../common/ui.js";
import { BY, NOW, ofMoney } from "./asks.js";
import { StackedBars } from "./chart.js";
import { csv } from "./csv.js";
import { endOf, spentFirst } from "./pace.js";
import { Choice, only, SpanChoice, Table, useApi, useKeyNames } from "./parts.js";

const REFRESH = 30_000;
const NANO = 1e9;
/** Titles of the period that each window is compared with: the one before it of the same length. */
const BEFORE = {
  "1h": "The hour before",
  today: "Yesterday by this time",
  yesterday: "The day before",
  "24h": "The 24 hours before",
  "7d": "The 7 days before",
  "30d": "The 30 days before",
};

export function Money({ view }) {
  const asked = ofMoney(view);
  const { span } = asked;
  const keyName = useKeyNames();
  const found = useApi(asked.rows, REFRESH);
  // Until the next response arrives, the table is labelled by what the shown one is grouped by.
  const by = found.value?.by[0] ?? asked.by;
  const nameOf = useMemo(() => (value) => (by === "key" ? keyName(value) : value) || "–", [by, keyName]);
  const before = useApi(asked.before, REFRESH);
  const now = useApi(NOW, REFRESH);
  const budgets = useApi(asked.budgets, REFRESH);
  // Memoized, so that each part is redrawn only when its own data changes.
  const chart = useMemo(
    () => html`<${Ready} found=${found}>${(value) => html`<${Days} found=${value} nameOf=${nameOf} by=${by} />`}<//>`,
    [found.state, found.value, nameOf],
  );
  const table = useMemo(
    () => html`<${Ready} found=${found}>
      ${({ rows, more }) => html`<${Sums} rows=${listed(rows, by)} more=${more} by=${by} span=${span} nameOf=${nameOf} before=${asked.before && before.address === asked.before ? before.value : undefined} />`}
    <//>`,
    [found.state, found.value, before.value, span, nameOf],
  );
  const limits = useMemo(
    () =>
      html`<${Ready} found=${budgets}>${({ limits }) => html`<${Budgets} limits=${limits} keyName=${keyName} />`}<//>`,
    [budgets.state, budgets.value, keyName],
  );
  return html`<h1>Money</h1>
    <${Ready} found=${now}>
      ${({ spend }) => html`<div class="cards">
        <${Card} title="Spent today" value=${money(spend.today)} under=${`${money(spend.yesterday_by_now)} by this time yesterday`} />
        <${Card} title="Yesterday" value=${money(spend.yesterday)} under="all day" />
      </div>`}
    <//>
    <div class="bar">
      <${SpanChoice} span=${span} />
      <${Choice} label="By" name="by" value=${asked.by} options=${BY.map((each) => [each, each])} />
      <${Ready} found=${found}>${({ rows }) => html`<${Csv} rows=${listed(rows, by)} by=${by} span=${span} nameOf=${nameOf} />`}<//>
    </div>
    ${found.value?.behind && html`<p class="banner" role="status">These figures lag: requests wait in the journal until the store can be written.</p>`}
    ${chart}
    ${table}
    <h2>Budgets</h2>
    ${limits}`;
}

const zero = { requests: 0, failed: 0, tokens_in: 0, cached: 0, tokens_out: 0, cost: 0, unsettled: 0 };

/** Returns the table's rows: the most expensive group first, or the newest day. */
const listed = (rows, by) => (by === "day" ? rows.toReversed() : rows);

/** @param more whether there are more rows than the answer has @param before the answer about the period before */
function Sums({ rows: own, more, by, span, nameOf, before }) {
  const all = own.reduce((sum, { cost }) => sum + cost, 0);
  const costs = before && new Map(before.rows.map(({ group: [value], cost }) => [value, cost]));
  // What an incomplete answer lacks is unknown.
  const missing = before?.more ? undefined : 0;
  const names = new Set(own.map(({ group: [value] }) => value));
  // Groups that spent something in the period before and nothing since are listed too.
  const ended = (more || !before ? [] : before.rows).filter(
    ({ group: [value], cost }) => cost > 0 && !names.has(value),
  );
  const rows = [...own, ...ended.map(({ group }) => ({ group, ...zero }))];
  const columns = [
    {
      title: by.charAt(0).toUpperCase() + by.slice(1),
      head: true,
      of: ({ group: [value] }) =>
        by === "tag" || by === "day"
          ? nameOf(value)
          : html`<${Link} to=${`/requests?since=${span}&${only(by, value)}`}>${nameOf(value)}<//>`,
    },
    { title: "Cost", number: true, of: ({ cost }) => html`<strong>${money(cost)}</strong>` },
    {
      title: "Share",
      number: true,
      of: ({ cost }) =>
        html`${percent(all > 0 ? cost / all : 0)}<span class="meter"><i style=${{ width: `${all > 0 ? (cost / all) * 100 : 0}%` }}></i></span>`,
    },
    ...(by === "day"
      ? []
      : [
          {
            title: BEFORE[span],
            number: true,
            of: ({ group: [value] }) => money(costs && (costs.get(value) ?? missing)),
          },
        ]),
    { title: "Requests", number: true, of: ({ requests }) => count(requests) },
    { title: "Failed", number: true, of: ({ failed }) => count(failed) },
    {
      title: "Tokens in",
      number: true,
      of: (row) =>
        html`${count(row.tokens_in)}${row.cached > 0 && html`<span class="sub">${percent(row.cached / row.tokens_in)} cached</span>`}`,
    },
    { title: "Tokens out", number: true, of: (row) => count(row.tokens_out) },
    { title: "Unsettled", number: true, of: ({ unsettled }) => count(unsettled) },
  ];
  return html`<${Table} caption=${`Spend by ${by}`} columns=${columns} rows=${rows} keyOf=${({ group }) => group.join()} />
    ${more && html`<p class="quiet small">Only the ${count(own.length)} most expensive are here; shares are of their cost together.</p>`}
    <p class="quiet small">Unsettled are requests whose provider told no or not all of its tokens, or that have no price: they may have cost more. What a provider refused cost nothing, and is settled.</p>`;
}

/** Downloads the rows as CSV, money in dollars to the nano-dollar. */
function Csv({ rows, by, span, nameOf }) {
  const save = () => {
    const head = [by, "requests", "failed", "tokens_in", "cached", "tokens_out", "reasoning", "cost_usd", "unsettled"];
    const lines = rows.map((row) => [
      nameOf(row.group[0]),
      row.requests,
      row.failed,
      row.tokens_in,
      row.cached,
      row.tokens_out,
      row.reasoning,
      (row.cost / NANO).toFixed(9),
      row.unsettled,
    ]);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([csv([head, ...lines])], { type: "text/csv" }));
    link.download = `spend-${by}-${span}.csv`;
    link.click();
    URL.revokeObjectURL(link.href);
  };
  return html`<button type="button" onClick=${save}>CSV</button>`;
}

/** Returns the chart's series. Days have one, in which those without any request cost nothing. */
function seriesOf({ rows, days, series }, by) {
  if (by !== "day") return series;
  const costs = new Map(rows.map(({ group: [day], cost }) => [day, cost]));
  return rows.some(({ cost }) => cost > 0) ? [{ group: ["all"], costs: days.map((day) => costs.get(day) ?? 0) }] : [];
}

function Days({ found, nameOf, by }) {
  const { rows, days, zone } = found;
  const series = useMemo(() => seriesOf(found, by), [found]);
  // Without any request the table below says so.
  if (series.length === 0) return rows.length > 0 && html`<p class="empty">Nothing was spent in that time.</p>`;
  const named = series.map(({ group, costs }) => ({ name: group ? nameOf(group[0]) : "others", values: costs }));
  const columns = [
    { title: `Day (${zone})`, head: true, of: ({ day }) => day },
    ...named.map(({ name, values }) => ({ title: name, number: true, of: ({ at }) => money(values[at]) })),
  ];
  return html`<${StackedBars} days=${days.map((day) => Date.parse(day) / 1000)} series=${named} zone=${zone} write=${money} label=${`Spend by ${by}, day by day in ${zone}; the table below has the figures`} />
    <details><summary>As a table</summary><${Table} caption=${by === "day" ? "Spend of each day" : `Spend by ${by} and day`} columns=${columns} rows=${days.map((day, at) => ({ day, at })).reverse()} /></details>`;
}

function End({ budget, now }) {
  const end = endOf(budget, now);
  if (end === undefined) return "–";
  if (end === now) return html`<span class=${budget.soft ? "fair" : "bad"}>it is spent</span>`;
  if (Number.isFinite(end)) return html`<${When} ms=${Math.round(end)} />`;
  return budget.resets ? "not before it begins anew" : "not, nothing is spent";
}

const HIGH = 0.8;
/** Returns the colour of a nearly spent budget, which is red only where requests are refused; empty for the others. */
const colourOf = ({ spent, limit, soft }) => (spent < HIGH * limit ? "" : soft ? "fair" : "bad");

function Budgets({ limits, keyName }) {
  const now = Date.now();
  const rows = spentFirst(
    limits.flatMap(({ kind, name, budgets = [] }) => budgets.map((budget) => ({ kind, name, ...budget }))),
  );
  const columns = [
    {
      title: "Whose",
      head: true,
      of: ({ kind, name }) =>
        kind === "key" ? (name ? `key ${keyName(name)}` : "callers without a key") : `${kind} ${name ?? ""}`,
    },
    {
      title: "Budget",
      number: true,
      of: ({ limit: nano, per, soft }) => budgetText({ nano, per, soft }),
    },
    {
      title: "Spent",
      number: true,
      of: ({ spent, limit, soft }) =>
        html`${money(spent)}<span class=${`meter ${colourOf({ spent, limit, soft })}`}><i style=${{ width: `${Math.min(100, limit > 0 ? (spent / limit) * 100 : 100)}%` }}></i></span>`,
    },
    { title: "Reserved", number: true, of: ({ reserved }) => money(reserved ?? 0) },
    {
      title: "Left",
      number: true,
      of: ({ remaining, ...budget }) => html`<span class=${colourOf(budget)}>${money(remaining)}</span>`,
    },
    { title: "Ends at this pace", of: (budget) => html`<${End} budget=${budget} now=${now} />` },
    { title: "Begins anew", of: ({ resets }) => (resets ? html`<${When} ms=${resets} />` : "never") },
  ];
  return html`<${Table} caption="Budgets" columns=${columns} rows=${rows} empty="No budget is set. Set one in gateway.yaml, like limits: { default: { budget: $50/month } }" />`;
}
