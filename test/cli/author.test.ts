import { hostname, userInfo } from "node:os";
import t from "tap";
import { cliAuthor, signalInitiator, systemUser, watchAuthor } from "../../src/cli/author.ts";

t.test("the author of a verb is the system's user, that of a signal is nobody, both on this machine", async (t) => {
  const address = hostname();
  t.same(cliAuthor(), { who: `cli:${userInfo().username}`, address });
  t.same(signalInitiator("SIGHUP"), { who: "signal", address, detail: { signal: "SIGHUP" } });
  t.same(watchAuthor(), { who: "watch", address });
});

t.test("a user without a name, as in many containers, is identified by number", async (t) => {
  const nameless = () => {
    throw new Error("ENOENT: no such user");
  };
  t.equal(systemUser(nameless), String(process.getuid?.() ?? "unknown"));
});
