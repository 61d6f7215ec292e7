import t from "tap";
import { formatCsv as lines } from "../../src/text/table.ts";

const { csv } = (await import(new URL("../../pages/console/csv.js", import.meta.url).href)) as {
  csv(rows: readonly (readonly (string | number)[])[]): string;
};

t.test("names that a spreadsheet would run are quoted as text, all others are unchanged", async (t) => {
  const rows = [
    ["model", "cost_usd"],
    ['=HYPERLINK("https://evil.test")', "0.1"],
    ["@cf/meta/llama", "-1.5"],
    ["a, b\nc", '"'],
    ["", "1"],
  ];
  t.equal(
    csv(rows),
    'model,cost_usd\r\n"\'=HYPERLINK(""https://evil.test"")",0.1\r\n@cf/meta/llama,-1.5\r\n"a, b\nc",""""\r\n,1\r\n',
  );
  t.equal(csv(rows), `${lines(rows).join("\r\n")}\r\n`, "like those of the verb usage");
  t.equal(csv([[1, 2]]), "1,2\r\n");
});
