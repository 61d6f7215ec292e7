import { execFileSync } from "node:child_process";
import t from "tap";
import { shellWord } from "../../src/cli/shell.ts";

t.test("any text is quoted so that a shell reads it as one unchanged word", async (t) => {
  const texts = [
    "plain",
    "a b",
    "it's",
    "$(echo x)`echo y`",
    '"quoted"',
    "a\\b",
    "two\nlines",
    "",
    "*",
    "~",
    "o3, input=M",
    "-n",
  ];
  const printed = execFileSync("sh", ["-c", `printf '%s\\0' ${texts.map(shellWord).join(" ")}`], { encoding: "utf8" });
  t.same(printed.split("\0").slice(0, -1), texts);
  t.equal(shellWord("other=MODEL"), "other=MODEL");
});
