import t from "tap";
import { Proxies } from "../../../src/upstream/http1/proxies.ts";

const proxy = (environment: Record<string, string>, address: string): string | undefined =>
  new Proxies(environment).for(new URL(address))?.origin;

t.test("each scheme has its variable; https falls back to the other; lower case takes precedence", (t) => {
  const both = { http_proxy: "http://plain.test:1", https_proxy: "http://secure.test:2" };
  const cases: [environment: Record<string, string>, address: string, expected: string | undefined][] = [
    [{}, "https://a.test", undefined],
    [both, "http://a.test", "http://plain.test:1"],
    [both, "https://a.test", "http://secure.test:2"],
    [{ HTTPS_PROXY: "https://p.test" }, "https://a.test", "https://p.test"],
    [{ HTTPS_PROXY: "https://p.test" }, "http://a.test", undefined],
    [{ HTTP_PROXY: "http://p.test:3" }, "https://a.test", "http://p.test:3"],
    [{ HTTP_PROXY: "http://upper.test", http_proxy: "http://lower.test" }, "http://a.test", "http://lower.test"],
    [{ HTTP_PROXY: "http://upper.test", http_proxy: "" }, "http://a.test", undefined],
    [{ http_proxy: "p.test:3128" }, "http://a.test", "http://p.test:3128"],
  ];
  for (const [environment, address, expected] of cases)
    t.equal(proxy(environment, address), expected, `${JSON.stringify(environment)} ${address}`);
  t.end();
});

t.test("a proxy has a host, a port, TLS or not, and credentials in the form it expects", (t) => {
  const at = (address: string) => new Proxies({ https_proxy: address }).for(new URL("https://a.test"));
  t.match(at("http://p.test"), { host: "p.test", port: 80, secure: false, authorization: "" });
  t.match(at("https://p.test"), { host: "p.test", port: 443, secure: true });
  t.match(at("http://[::1]:8080/"), { host: "::1", port: 8080, origin: "http://[::1]:8080" });
  const pair = (address: string) =>
    Buffer.from(
      at(address)?.authorization.match(/^proxy-authorization: Basic (\S+)\r\n$/)?.[1] ?? "",
      "base64",
    ).toString();
  t.equal(pair("http://user:p%40ss%3Aw%C3%B6rd@p.test:1"), "user:p@ss:w\u00f6rd");
  t.equal(pair("http://only@p.test:1"), "only:");
  t.notMatch(at("http://user:secret@p.test:1")?.origin, /secret|user/);
  t.end();
});

t.test("hosts in NO_PROXY are reached directly", (t) => {
  const cases: [no: string, address: string, direct: boolean][] = [
    ["", "http://a.test", false],
    ["a.test", "http://a.test", true],
    ["A.Test", "http://a.test.", true],
    ["a.test.", "http://a.test", true],
    ["a.test", "http://sub.a.test", true],
    ["a.test", "http://banana.test", false],
    ["na.test", "http://banana.test", false],
    [".a.test", "http://sub.a.test", true],
    [".a.test", "http://a.test", true],
    ["*.a.test", "http://sub.a.test", true],
    ["*.a.test", "http://a.test", false],
    ["a.test:80", "http://a.test", true],
    ["a.test:443", "http://a.test", false],
    ["a.test:443", "https://a.test", true],
    ["a.test:8080", "http://sub.a.test:8080", true],
    ["*", "http://a.test", true],
    ["x.test, *", "http://a.test", true],
    ["*:443", "http://a.test", false],
    ["*:443", "https://a.test", true],
    ["x.test,a.test", "http://a.test", true],
    ["x.test a.test\ty.test", "http://a.test", true],
    ["127.0.0.1", "http://127.0.0.1:1234", true],
    ["127.0.0.1", "http://127.0.0.2", false],
    ["::1", "http://[::1]:1", true],
    ["[::1]", "http://[::1]:1", true],
    ["[::1]:2", "http://[::1]:1", false],
    ["[::1]:1", "http://[::1]:1", true],
    ["localhost,10.0.0.0/8", "https://10.1.2.3:8000", true],
    ["10.0.0.0/8", "http://11.1.2.3", false],
    ["10.0.0.0/8", "http://10.test", false],
    ["fd00::/8", "http://[fd00::7]:8000", true],
    ["10.0.0.0/33,a/b,/", "http://10.1.2.3", false],
  ];
  for (const [no, address, direct] of cases) {
    const found = proxy({ http_proxy: "http://p.test", NO_PROXY: no }, address);
    t.equal(found, direct ? undefined : "http://p.test", `${no} and ${address}`);
  }
  t.equal(proxy({ http_proxy: "http://p.test", no_proxy: "", NO_PROXY: "*" }, "http://a.test"), "http://p.test");
  t.end();
});

t.test("an invalid proxy address is refused with the variable's name, without its value", (t) => {
  for (const bad of ["socks5://secret.test:1", "http://", "http://a b", "http://secret%zz:1@p.test", "ftp://p.test"]) {
    t.throws(() => new Proxies({ https_proxy: bad }), { message: /^HTTPS_PROXY is not the address of a proxy/ }, bad);
    t.throws(() => new Proxies({ https_proxy: bad }), { message: /^(?!.*secret)/ });
  }
  t.end();
});
