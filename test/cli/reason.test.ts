import t from "tap";
import { KnownReason, reason } from "../../src/cli/reason.ts";
import { FileError } from "../../src/core/errors.ts";

t.test("what can be foreseen is told in a line, without a stack", async (t) => {
  t.equal(reason(new FileError("The store x cannot be used.")), "The store x cannot be used.");
  const taken = Object.assign(new Error("listen EADDRINUSE"), { code: "EADDRINUSE", address: "127.0.0.1", port: 80 });
  t.match(reason(taken), /^127\.0\.0\.1:80 is taken: .*listen:/);
  const refused = Object.assign(new Error("listen EACCES"), {
    code: "EACCES",
    syscall: "listen",
    address: "::",
    port: 80,
  });
  t.equal(reason(refused), "not allowed to listen on :::80");
});

t.test("what another process has said of it stays as it is", async (t) => {
  t.equal(reason(new KnownReason("plugin a: its start() failed")), "plugin a: its start() failed");
});

t.test("what nobody foresaw keeps its stack", async (t) => {
  t.match(reason(new TypeError("x is not a function")), /^TypeError: x is not a function\n +at /);
  t.equal(reason("thrown"), "thrown");
});
