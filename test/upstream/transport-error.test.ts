import { spawnSync } from "node:child_process";
import t from "tap";
import { GatewayError } from "../../src/core/errors.ts";
import { Http1Error } from "../../src/upstream/http1/errors.ts";
import { timeoutError, transportError, UpstreamFault } from "../../src/upstream/transport-error.ts";

const coded = (code: string, message = "sk-secret https://x.test/?key=1") =>
  Object.assign(new Error(message), { code });

t.test("the same break has a different meaning at each point of an attempt", (t) => {
  const reset = coded("ECONNRESET");
  t.equal(transportError(reset, "connecting", "h").code, "upstream_unreachable");
  t.equal(transportError(reset, "waiting", "h").code, "upstream_failed");
  t.equal(transportError(reset, "answering", "h").code, "upstream_truncated");
  t.end();
});

t.test("a head that is not HTTP is invalid; in the middle of a response it is an interruption", (t) => {
  const bad = new Http1Error("RESPONSE_NOT_HTTP");
  t.equal(transportError(bad, "waiting", "h").code, "upstream_invalid");
  t.equal(transportError(bad, "answering", "h").code, "upstream_truncated");
  t.end();
});

t.test("the gateway's own faults are not attributed to the provider", (t) => {
  const invalid = transportError(new Http1Error("REQUEST_INVALID", "The header x cannot be sent."), "connecting", "h");
  t.match(invalid, { code: "internal", message: "The header x cannot be sent." });
  t.match(transportError(new Http1Error("BODY_LENGTH_WRONG", "Too long."), "waiting", "h"), {
    code: "bad_request",
    message: "Too long.",
  });
  t.equal(transportError(new Http1Error("BODY_BROKEN_OFF"), "waiting", "h").code, "client_gone");
  t.equal(transportError(new Http1Error("POOL_CLOSED"), "connecting", "h").code, "draining");
  for (const code of ["EMFILE", "ENFILE"])
    t.match(transportError(coded(code), "connecting", "h"), { code: "overloaded", status: 503, cause: { code } });
  t.end();
});

t.test("a name that cannot be looked up without a free file descriptor is not unknown", async (t) => {
  const module = new URL("../../src/upstream/transport-error.ts", import.meta.url).href;
  const script = `
    const { transportError } = await import(${JSON.stringify(module)});
    const { closeSync, openSync } = await import("node:fs");
    const thrown = Object.assign(new Error("getaddrinfo"), { code: "ENOTFOUND", syscall: "getaddrinfo" });
    const codes = [];
    const note = () => codes.push(transportError(thrown, "connecting", "h").code);
    note();
    const files = [];
    try { for (;;) files.push(openSync("/dev/null", "r")); } catch {}
    note();
    for (const file of files) closeSync(file);
    note();
    console.log(codes.join());`;
  const loader = new URL("../../src/loader/register.js", import.meta.url).href;
  const args = ["--import", loader, "--input-type=module", "--eval", script];
  const limited = spawnSync("sh", ["-c", 'ulimit -n 256 && exec "$0" "$@"', process.execPath, ...args], {
    encoding: "utf8",
    env: { ...process.env, NODE_OPTIONS: "" },
  });
  const stdout = "upstream_unreachable,overloaded,upstream_unreachable\n";
  t.match(limited, { status: 0, stdout, stderr: "" });
});

t.test("a proxy that refuses makes the provider unreachable, whenever it does", (t) => {
  for (const progress of ["connecting", "waiting"] as const)
    t.match(
      transportError(
        new Http1Error("PROXY_STATUS_407", "The gateway's proxy answered 407.", "http://p:1"),
        progress,
        "h",
      ),
      {
        code: "upstream_unreachable",
        message: "The gateway's proxy answered 407.",
        cause: { code: "PROXY_STATUS_407", host: "h", message: "PROXY_STATUS_407 at h through the proxy http://p:1" },
      },
    );
  t.end();
});

t.test("a GatewayError is thrown unchanged; any other exception becomes one", (t) => {
  const error = new GatewayError("body_too_large");
  t.equal(transportError(error, "waiting", "h"), error);
  for (const thrown of ["text", undefined, null, 1, new TypeError("sk-secret")]) {
    t.ok(transportError(thrown, "waiting", "h") instanceof GatewayError);
  }
  t.end();
});

t.test("the cause is a code and a host, never the transport's own message", (t) => {
  const { cause } = transportError(coded("ECONNREFUSED"), "connecting", "api.test:1");
  t.ok(cause instanceof UpstreamFault);
  t.equal(String((cause as UpstreamFault).message), "ECONNREFUSED at api.test:1: no server listens there");
  t.notMatch((cause as UpstreamFault).stack, "sk-secret");
  t.equal((transportError(coded("EPIPE"), "waiting", "h").cause as UpstreamFault).message, "EPIPE at h");
  t.end();
});

t.test("timeouts are reported in common units", (t) => {
  t.match(timeoutError("idle", 250, "h").message, "for 250 ms ");
  t.match(timeoutError("first_byte", 600_000, "h").message, "within 600 s.");
  t.match(timeoutError("connect", 1500, "h").message, "within 1.5 s.");
  t.match(timeoutError("total", 4987.123, "h").message, "after 5 s.", "what a former attempt has left");
  t.same(
    (["connect", "first_byte", "idle", "total"] as const).map((limit) => timeoutError(limit, 1, "h").code),
    ["upstream_unreachable", "upstream_timeout", "upstream_timeout", "upstream_timeout"],
  );
  t.end();
});
