import t from "tap";
import { readOidc } from "../../src/config/oidc.ts";
import { atPath } from "../../src/config/tree.ts";

const RIGHT = {
  issuer: "https://login.example.com/realms/one",
  client_id: "gateway",
  client_secret: "a secret",
  url: "https://console.example.com",
  roles: { admin: ["ops"] },
};

function read(oidc: unknown) {
  const file = { admin: { oidc } };
  const said: string[] = [];
  const text = (...path: string[]) => atPath(file, ...path) as string | undefined;
  const found = readOidc(file, {
    text,
    secret: (path) => text(...path),
    report: ({ path, message }) => void said.push(`${path.join(".")}: ${message}`),
  });
  return { found, said };
}

t.test("omitted settings have defaults", async (t) => {
  const { found, said } = read(RIGHT);
  t.same(said, []);
  t.match(found, {
    scope: "openid profile email",
    client_secret: "a secret",
    roles: { claim: "groups", admin: ["ops"], viewer: { length: 0 } },
  });
  const { client_secret: _, ...open } = RIGHT;
  t.equal("client_secret" in (read(open).found ?? {}), false, "a public client");
  t.equal(read(undefined).found, undefined);
  t.ok(read({ ...RIGHT, issuer: "http://127.0.0.1:8081", url: "http://localhost:9090" }).found);
});

t.test("settings that would admit nobody, everybody or eavesdroppers are refused with the fix", async (t) => {
  for (const [change, said] of [
    [{ issuer: "http://login.example.com" }, /oidc\.issuer: expected an address like https:/],
    [{ issuer: "login" }, /oidc\.issuer: expected/],
    [{ url: "http://console.example.com" }, /oidc\.url: expected an address like https:/],
    [{ url: "https://console.example.com/admin" }, /oidc\.url: .*remove the path/],
    [{ scope: "profile" }, /oidc\.scope: openid must be/],
    [{ roles: {} }, /oidc\.roles: nobody could sign in/],
    [{ roles: { admin: ["*"] } }, /oidc\.roles\.admin: everybody could change everything/],
  ] as const)
    t.match(read({ ...RIGHT, ...change }).said, [said], JSON.stringify(change));
});

t.test("a role whose value is a string is reported by the schema only", async (t) => {
  t.same(read({ ...RIGHT, roles: { viewer: "staff" } }).said, []);
});
