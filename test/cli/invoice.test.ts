import t from "tap";
import { parseInvoice } from "../../src/cli/invoice.ts";

const read = (text: string, zone = "UTC") => parseInvoice(text, zone);
const plain = (text: string, zone?: string) =>
  read(text, zone).lines.map(({ day, name, figures }) => [day, name, figures]);

t.test("an export of tokens by day and model is parsed, with days omitted", async (t) => {
  const text = [
    "start_time,end_time,start_time_iso,end_time_iso,project_id,num_model_requests,model,batch,input_tokens,output_tokens,input_cached_tokens,input_uncached_tokens",
    "1759622400,1759708800,2025-10-05T00:00:00+00:00,2025-10-06T00:00:00+00:00,proj,10.0,gpt-4o-2024-08-06,FALSE,59200.0,10646.0,5760.0,53440.0",
    "1759881600,1759968000,2025-10-08T00:00:00+00:00,2025-10-09T00:00:00+00:00,,,,,,,,",
  ].join("\n");
  t.same(plain(text), [["2025-10-05", "gpt-4o-2024-08-06", { tokensIn: 59200, cached: 5760, tokensOut: 10646 }]]);
  t.same(read(text).unread, []);
});

t.test("an export of amounts by line is parsed, to the last digit", async (t) => {
  const text = [
    "start_time\tend_time\tstart_time_iso\tend_time_iso\tamount_value\tamount_currency\tline_item",
    '1759622400\t1759708800\t2025-10-05T00:00:00+00:00\t2025-10-06T00:00:00+00:00\t0.8958740000000000\tusd\t"gpt-5, input"',
    "1759622400\t1759708800\t2025-10-05T00:00:00+00:00\t2025-10-06T00:00:00+00:00\t1.2e-05\tusd\tgpt-5, output",
  ].join("\n");
  t.same(plain(text), [
    ["2025-10-05", "gpt-5, input", { cost: 895_874_000 }],
    ["2025-10-05", "gpt-5, output", { cost: 12_000 }],
  ]);
  t.equal(read(text).rounding, 0);
});

t.test("separate cached tokens are part of the input", async (t) => {
  const text = [
    "usage_date_utc,model_version,api_key,usage_input_tokens_no_cache,usage_input_tokens_cache_write_5m,usage_input_tokens_cache_write_1h,usage_input_tokens_cache_read,usage_output_tokens,web_search_count",
    "2026-03-22,claude-sonnet-4-20250514,key,100,20,3,4000,50,0",
  ].join("\n");
  t.same(plain(text), [["2026-03-22", "claude-sonnet-4-20250514", { tokensIn: 4123, cached: 4000, tokensOut: 50 }]]);
});

t.test("amounts rounded to cents may differ by half a cent per line", async (t) => {
  const text = [
    "usage_date_utc,model,workspace,api_key,usage_type,context_window,token_type,cost_usd,list_price_usd",
    "2026-08-04,Claude Haiku 4.5,Default,k,message,≤ 200k,input_no_cache,0.05,0.05",
    "2026-08-04,Claude Haiku 4.5,Default,k,message,≤ 200k,output,0.02,0.02",
  ].join("\n");
  const { lines, rounding, figureNames } = read(text);
  t.same([lines.length, rounding, [...figureNames]], [2, 5_000_000, ["cost"]]);
});

t.test("an invoice with a row for each kind of token is parsed", async (t) => {
  const titles =
    "Date,Service description,SKU description,SKU ID,Usage amount,Usage unit,List cost ($),Unrounded subtotal ($),Subtotal ($)";
  const row = (words: string, amount: string, cost: string, unit = "count") =>
    `2026-08-15,API,${words},X,"${amount}",${unit},${cost},${cost}00,${cost}`;
  const text = [
    titles,
    row("Generate content output token count gemini 2.5 flash short input text", "622,403", "1.55"),
    row("Generate content input token count gemini 2.5 flash short text", "1,000", "0.30"),
    row("Generate content input token count gemini 2.5 flash text caching", "500", "0.01"),
    row("Cached content storage token count gemini 2.5 flash", "9", "0.02", "count hour"),
    "Total,,,,,,,,1.88",
  ].join("\n");
  t.same(
    plain(text).map(([, , figures]) => figures),
    [
      { tokensOut: 622_403, cost: 1_550_000_000 },
      { tokensIn: 1000, cost: 300_000_000 },
      { tokensIn: 500, cached: 500, cost: 10_000_000 },
      { cost: 20_000_000 },
    ],
  );
  t.same(read(text).unread, [], "the sum at the end counts nothing twice");
});

t.test("times are assigned to the day in the vendor's timezone", async (t) => {
  const text = "timestamp,model,cost\n2026-11-20T03:00:00Z,m,1\n1795143600,m,2\n2026-11-20 03:00:00,m,3\n";
  t.same(
    plain(text).map(([day]) => day),
    ["2026-11-20", "2026-11-20", "2026-11-20"],
  );
  t.same(
    plain(text, "America/Los_Angeles").map(([day]) => day),
    ["2026-11-19", "2026-11-19", "2026-11-20"],
  );
});

t.test("numbers with decimal commas are parsed as such where one of the file can be nothing else", async (t) => {
  const file = (...amounts: string[]) =>
    ["date;model;cost;input_tokens", ...amounts.map((each) => `2026-11-20;one;${each}`)].join("\n");
  const figures = (...amounts: string[]) => parseInvoice(file(...amounts), "UTC").lines.map((line) => line.figures);
  t.same(figures("0,102;34.060", "1.234,50 $;7", "-1,234;1", "(0,5);1"), [
    { cost: 102_000_000, tokensIn: 34_060 },
    { cost: 1_234_500_000_000, tokensIn: 7 },
    { cost: -1_234_000_000, tokensIn: 1 },
    { cost: -500_000_000, tokensIn: 1 },
  ]);
  t.equal(parseInvoice(file("0,10;1"), "UTC").rounding, 5_000_000);
  t.same(figures("1,234;1", "12.5;34,060"), [
    { cost: 1_234_000_000_000, tokensIn: 1 },
    { cost: 12_500_000_000, tokensIn: 34_060 },
  ]);
  t.same(figures("1,23,456.5;1"), [], "neither");
});

t.test("subtotals at the end of a file are no lines that could not be parsed", async (t) => {
  const rows = ["Subtotal", "Sub-total", "Filtered total", "Grand total", "Total:"].map((title) => `,,${title},5`);
  const { lines, unread } = parseInvoice(["date,model,note,cost", "2026-11-20,one,,5", ...rows].join("\n"), "UTC");
  t.equal(lines.length, 1);
  t.same(unread, []);
});

t.test("lines that cannot be parsed are reported", async (t) => {
  const text =
    "date,until,model,cost,end_time\n05/10/2026,,m,1,\n2026-11-01,,m,x,\n2026-11-01,,,5,\n2026-11-01,,m,5,2026-11-30\n";
  const { lines, unread } = read(text);
  t.same(lines, []);
  t.same(
    unread.map(({ line, reason }) => [line, reason]),
    [
      [2, '"05/10/2026" is not a day like 2026-11-20'],
      [3, '"x" is not a number like 1234.5'],
      [4, "it has no model"],
      [5, "it covers more than a day (2026-11-01 to 2026-11-30): export it by day"],
    ],
  );
});

t.test("a line that ends before its figures is reported, as in a truncated download", async (t) => {
  const { lines, unread } = read("date,model,input_tokens,output_tokens\n2026-11-01,m,1,2\n2026-11-01,m\n");
  t.equal(lines.length, 1);
  t.match(unread, [{ line: 3, reason: "it has too few columns" }]);
});

t.test("charges without a model have the name of their kind", async (t) => {
  const text = "date,model,cost_type,cost\n2026-11-01,m,tokens,1\n2026-11-01,,web_search,2\n";
  t.same(
    plain(text).map(([, name]) => name),
    ["m", "web_search"],
  );
});

t.test("if some amounts are in dollars, only those in other currencies are not compared", async (t) => {
  const { lines, figureNames, unread, currency, foreign } = read(
    [
      ...["date,model,cost,currency,output_tokens", "2026-11-01,m,1,EUR,5", "2026-11-01,m,2,USD,6"],
      ...["2026-11-01,n,3,EUR,", "2026-11-02,m,4,,7"],
    ].join("\n"),
  );
  t.same(
    lines.map(({ line, figures }) => [line, figures]),
    [
      [2, { tokensOut: 5 }],
      [3, { cost: 2e9, tokensOut: 6 }],
      [5, { cost: 4e9, tokensOut: 7 }],
    ],
  );
  t.same([...figureNames].sort(), ["cost", "tokensOut"]);
  t.match(unread, [{ line: 4, reason: "its money is in EUR, the ledger's in dollars" }]);
  t.equal(currency, undefined);
  t.same(foreign, { currency: "EUR", lines: 2 });
});

t.test("amounts in another currency are not compared", async (t) => {
  const { figureNames, currency } = read("date,model,cost,currency,output_tokens\n2026-11-01,m,1,eur,5\n");
  t.same([[...figureNames], currency], [["tokensOut"], "eur"]);
});
