import { relative } from "node:path";
import { fileURLToPath } from "node:url";
import type { Test } from "tap";
import { match, same, strict } from "tcompare";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const SELF = fileURLToPath(import.meta.url);
/** Number of failures shown in full. */
const SHOWN = 10;

type Run = (t: Test) => unknown;

/** Like `t.test`, for a test with a great many cases: it makes one assertion, which lists those that fail. */
export function gathered(t: Test, name: string, ...rest: [run: Run] | [options: object, run: Run]): Promise<unknown> {
  const [options, run] = rest.length === 1 ? [{}, rest[0]] : rest;
  return t.test(name, options, async (t) => {
    const gatherer = new Gatherer();
    await run(gatherer.of(t));
    const { failures, checks } = gatherer;
    if (checks === 0) t.fail("there is no case to check");
    else
      t.ok(failures.length === 0, `${checks} checks`, { failures: failures.slice(0, SHOWN), failed: failures.length });
  });
}

/** Replaces a test's comparing assertions; all other methods are the test's own. */
class Gatherer {
  checks = 0;
  readonly failures: string[] = [];

  private readonly methods: Record<string, (...given: never[]) => boolean> = {
    ok: (value: unknown, message?: unknown) => this.check(Boolean(value), message, "is falsy"),
    notOk: (value: unknown, message?: unknown) => this.check(!value, message, "is truthy"),
    equal: (found: unknown, wanted: unknown, message?: unknown) =>
      this.check(Object.is(found, wanted), message, () => strict(found, wanted).diff || "another object"),
    not: (found: unknown, wanted: unknown, message?: unknown) =>
      this.check(!Object.is(found, wanted), message, "is the same"),
    same: (found: unknown, wanted: unknown, message?: unknown) => this.compare(same(found, wanted), true, message),
    strictSame: (found: unknown, wanted: unknown, message?: unknown) =>
      this.compare(strict(found, wanted), true, message),
    match: (found: unknown, wanted: unknown, message?: unknown) => this.compare(match(found, wanted), true, message),
    notMatch: (found: unknown, wanted: unknown, message?: unknown) =>
      this.compare(match(found, wanted), false, message),
    throws: (run: () => unknown, ...rest: unknown[]) => this.thrown(run, rest),
    doesNotThrow: (run: () => unknown, message?: unknown) => {
      const thrown = caught(run);
      return this.check(!thrown, message, () => `it throws ${String(thrown?.error)}`);
    },
  };

  of(t: Test): Test {
    return new Proxy(t, {
      get: (target, name) => {
        const mine = this.methods[name as string];
        if (mine) return mine;
        const theirs: unknown = Reflect.get(target, name);
        return typeof theirs === "function" ? theirs.bind(target) : theirs;
      },
    });
  }

  private thrown(run: () => unknown, rest: readonly unknown[]): boolean {
    const [wanted, message] = typeof rest[0] === "string" ? [undefined, rest[0]] : rest;
    const thrown = caught(run);
    if (!thrown) return this.check(false, message, "it throws nothing");
    if (wanted === undefined) return this.check(true, message, "");
    const { error } = thrown;
    const found = wanted instanceof RegExp && error instanceof Error ? error.message : error;
    return this.compare(match(found, wanted), true, message);
  }

  private compare(result: { match: boolean; diff: string }, wanted: boolean, message: unknown): boolean {
    return this.check(result.match === wanted, message, () => (wanted ? result.diff : "it matches"));
  }

  private check(fine: boolean, message: unknown, why: string | (() => string)): boolean {
    this.checks++;
    if (!fine) this.failures.push(`${place()} ${String(message ?? "")}\n${typeof why === "string" ? why : why()}`);
    return fine;
  }
}

/** Returns what a function throws. */
function caught(run: () => unknown): { error: unknown } | undefined {
  try {
    run();
    return undefined;
  } catch (error) {
    return { error };
  }
}

/** Returns the line of the test that is being checked. */
function place(): string {
  const line = new Error().stack?.split("\n").find((each) => /\.ts:\d+/.test(each) && !each.includes(SELF));
  const [, file = "", at = ""] = /([^\s(]+\.ts):(\d+):\d+\)?$/.exec(line ?? "") ?? [];
  return `${relative(ROOT, file.startsWith("file:") ? fileURLToPath(file) : file)}:${at}`;
}
