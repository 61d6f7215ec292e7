import t from "tap";
import { fileProblem } from "../../src/core/file-problem.ts";

t.test("why a file cannot be read or written is said in words", (t) => {
  const told = (code: string) => fileProblem(Object.assign(new Error(`${code}: open 'x'`), { code }), "folder");
  t.equal(told("ENOENT"), "there is no such folder");
  t.equal(told("EISDIR"), "it is a folder");
  t.equal(told("EWHAT"), "EWHAT: open 'x'");
  t.end();
});
