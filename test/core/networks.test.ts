import t from "tap";
import { addressLimitKey, listenOptions, Networks, peerAddress, plainAddress } from "../../src/core/networks.ts";

t.test("an address is one alone, an IPv4-mapped address is one of IPv4", async (t) => {
  for (const [text, address] of [
    ["1.2.3.4", "1.2.3.4"],
    ["::ffff:1.2.3.4", "1.2.3.4"],
    ["::FFFF:127.0.0.1", "127.0.0.1"],
    ["2001:db8::1", "2001:db8::1"],
    ["1.2.3.4:80", undefined],
    ["[::1]", undefined],
    ["unknown", undefined],
    ["", undefined],
  ] as const)
    t.equal(plainAddress(text), address, text);
});

t.test("who opened a connection has a plain address, or none on a Unix socket", async (t) => {
  t.equal(peerAddress({ remoteAddress: "::ffff:10.0.0.1" }), "10.0.0.1");
  t.equal(peerAddress({ remoteAddress: "fd00::1" }), "fd00::1");
  t.equal(peerAddress({}), "");
});

t.test("a listener for all addresses leaves the choice of the family to node", async (t) => {
  t.same(listenOptions({ host: "::", port: 1 }), { host: undefined, port: 1 });
  for (const other of [{ host: "0.0.0.0", port: 1 }, { host: "::1", port: 1 }, { fd: 3 }, { path: "/run/a.sock" }])
    t.equal(listenOptions(other), other);
});

t.test("limits are per IPv4 address and per /64, in any notation", async (t) => {
  t.equal(addressLimitKey("1.2.3.4"), "1.2.3.4");
  for (const same of ["2001:db8:0:1::5", "2001:DB8:0:1:2:3:4:5", "2001:0db8:0000:0001::", "2001:db8:0:1:ffff::1"])
    t.equal(addressLimitKey(same), "2001:db8:0:1::/64", same);
  t.not(addressLimitKey("2001:db8:0:2::5"), "2001:db8:0:1::/64");
  t.equal(addressLimitKey("::1"), "0:0:0:0::/64");
  t.equal(addressLimitKey("fe80::"), "fe80:0:0:0::/64");
});

t.test("addresses are matched against networks, also mapped ones", async (t) => {
  const networks = new Networks(["127.0.0.1", "10.0.0.0/8", "fd00::/8", "::ffff:192.0.2.7"]);
  for (const inside of ["127.0.0.1", "10.255.0.1", "fd12::1", "192.0.2.7"]) t.ok(networks.has(inside), inside);
  for (const outside of ["127.0.0.2", "11.0.0.1", "fe80::1", "::1", "192.0.2.8", ""])
    t.notOk(networks.has(outside), outside);
  t.notOk(new Networks().has("127.0.0.1"));
  t.same([new Networks().empty, networks.empty], [true, false]);
});

t.test("an invalid address or range is refused with the accepted forms", async (t) => {
  for (const wrong of ["localhost", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/8/8", "10.0.0.0/-1", "::/129", "", "10.0.0"])
    t.throws(() => new Networks([wrong]), { name: "RangeError", message: /write it like 127\.0\.0\.1/ }, wrong);
});
