import t from "tap";
import { ConfigError, displayPath, formatProblem, type Problem, sortProblems } from "../../src/config/problems.ts";

const problem = (line: number, column: number, message: string): Problem => ({
  file: "gateway.yaml",
  line,
  column,
  message,
  frame: `> ${line} | x`,
  severity: "error",
});

t.test("a problem has its position, its severity, its message, then the excerpt", async (t) => {
  t.equal(formatProblem(problem(3, 5, "wrong")), "gateway.yaml:3:5 error: wrong\n> 3 | x");
  t.equal(
    formatProblem({ ...problem(1, 1, "gone"), frame: "", severity: "warning" }),
    "gateway.yaml:1:1 warning: gone",
  );
});

t.test("a file below the folder is shown relative to it, any other with its whole path", async (t) => {
  t.equal(displayPath("/etc/gateway/gateway.yaml", "/etc"), "gateway/gateway.yaml");
  t.equal(displayPath("/etc/gateway.yaml", "/etc/gateway"), "/etc/gateway.yaml");
});

t.test("problems are reported in the order of the file, equal ones once", async (t) => {
  const sorted = sortProblems([problem(9, 1, "c"), problem(2, 7, "b"), problem(2, 3, "a"), problem(9, 1, "c")]);
  t.same(
    sorted.map(({ message }) => message),
    ["a", "b", "c"],
  );
});

t.test("the error's message contains all problems", async (t) => {
  const error = new ConfigError([problem(1, 2, "a"), problem(3, 4, "b")]);
  t.equal(error.message, "gateway.yaml:1:2 error: a\n> 1 | x\n\ngateway.yaml:3:4 error: b\n> 3 | x");
  t.equal(error.name, "ConfigError");
});
