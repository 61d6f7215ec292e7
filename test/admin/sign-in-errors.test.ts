import t from "tap";
import { formatSignInError } from "../../src/admin/sign-in-errors.ts";

const library = (message: string, more: object) => Object.assign(new Error(message), { code: "OAUTH_X" }, more);

t.test("what the provider sent is behind the general message, each text once and in one line", async (t) => {
  const denied = { error: "access_denied", error_description: "not\nyou", cause: new URLSearchParams("error=x") };
  t.equal(formatSignInError(library("an error", denied)), "an error: access_denied: not you");
  const late = library("exp is past", { cause: { claims: { exp: 100 }, claim: "exp", now: 500 } });
  const wrapped = library("validation failed", { cause: late });
  t.equal(formatSignInError(wrapped), "validation failed: exp is past: exp is 100, and the time here 500");
  const challenge = { cause: [{ scheme: "basic", parameters: { realm: "x", error: "invalid_client" } }] };
  t.equal(formatSignInError(library("a challenge", challenge)), "a challenge: invalid_client");
  t.equal(formatSignInError(library("long", { error: "x".repeat(1000) })).length, 500);
});

t.test("an error that is not foreseen keeps its stack", async (t) => {
  t.match(formatSignInError(new TypeError("x is not a function")), /^TypeError: x is not a function\n +at /);
});
