import { readFileSync } from "node:fs";
import t from "tap";
import { ROUTES } from "../../src/admin/api.ts";
import { startAdmin, TOKEN, VIEWER, WITH_TOKENS } from "./support.ts";

interface Operation {
  operationId: string;
  "x-role": string;
  security?: object[];
  parameters?: { name: string; in: string }[];
  requestBody?: { content: { "application/json": { schema: { properties: object; required?: string[] } } } };
  responses: Record<
    string,
    { content?: { "application/json": { schema: { properties: object; required: string[] } } } }
  >;
}
type Described = { openapi: string; paths: Record<string, Record<string, Operation>> };

const as = (token: string) => ({ headers: { authorization: `Bearer ${token}` } });

/** Its operations, as [method, path, operation]. */
const operationsOf = ({ paths }: Described) =>
  Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => [method.toUpperCase(), path, operation] as const),
  );

t.test("the API's description needs the same access as the API", async (t) => {
  const { ask } = await startAdmin(t, WITH_TOKENS);
  t.equal((await ask("GET", "/openapi.json")).status, 401);
  t.equal((await ask("POST", "/openapi.json", as(TOKEN))).status, 404);
  t.match(await ask("GET", "/openapi.json", as(VIEWER)), {
    status: 200,
    headers: { "content-type": "application/json" },
    body: { openapi: "3.1.0", info: { title: /admin/ } },
  });
});

t.test("the description, the routes and docs/admin-api.md have the same operations", async (t) => {
  const { ask } = await startAdmin(t);
  const operations = operationsOf((await ask("GET", "/openapi.json")).body);
  const names = operations.map(([method, path]) => `${method} ${path}`);
  for (const { method, path } of ROUTES) t.ok(names.includes(`${method} ${path}`), `${method} ${path}`);
  const docs = readFileSync(new URL("../../docs/admin-api.md", import.meta.url), "utf8");
  const written = [...docs.matchAll(/`(GET|POST|PATCH|DELETE) (\/[^\s`?]+)/g)].map(
    ([, method, path]) => `${method} ${path}`,
  );
  const probes = ["GET /livez", "GET /readyz"];
  t.same(new Set([...written, ...probes]), new Set(names), "no more and no less");
  t.equal(new Set(operations.map(([, , { operationId }]) => operationId)).size, operations.length);
});

t.test("each documented operation responds with the documented members, for the documented roles", async (t) => {
  const metrics = async () => ({ type: "text/plain", text: "" });
  const { ask } = await startAdmin(t, WITH_TOKENS, { metrics });
  const operations = operationsOf((await ask("GET", "/openapi.json", as(TOKEN))).body);
  for (const [method, path, { "x-role": role, security, responses }] of operations) {
    if (path === "/api/live/events") continue;
    const name = `${method} ${path}`;
    const address = path.replace(/\{\w+\}/, "nothing");
    const nobody = await ask(method, address);
    t.equal(
      nobody.status !== 401 || method === "POST",
      role === "anybody" || method === "POST",
      `${name} without a session`,
    );
    t.equal(security?.length === 0, role === "anybody", name);
    if (method !== "GET") {
      if (role === "admin") t.equal((await ask(method, address, as(VIEWER))).status, 403, `${name} for a viewer`);
      continue;
    }
    const { status, body } = await ask(method, address, as(TOKEN));
    if (path.includes("{") || path.endsWith("/oidc")) {
      t.match(body, { error: { code: "not_found", message: /./ } }, name);
      continue;
    }
    t.equal(status, 200, name);
    const { properties = {}, required = [] } = responses["200"]?.content?.["application/json"].schema ?? {};
    for (const member of required) t.ok(member in body, `${name} has ${member}`);
    const open = ["/livez", "/readyz", "/api/now", "/openapi.json", "/api/config"].includes(path);
    if (!open && path !== "/metrics")
      t.same(
        Object.keys(body).filter((member) => !(member in properties)),
        [],
        `${name} has no other members`,
      );
  }
});

t.test("each documented request body is parsed as documented", async (t) => {
  const { ask } = await startAdmin(t);
  const { paths } = (await ask("GET", "/openapi.json")).body as Described;
  const schemaOf = (path: string, method: string) =>
    paths[path]?.[method]?.requestBody?.content["application/json"].schema;
  t.match(schemaOf("/api/keys", "post"), { required: ["name"], properties: { name: { type: "string" }, rpm: {} } });
  t.notOk(schemaOf("/api/keys/{id}", "patch")?.required);
  t.match(schemaOf("/api/explain", "post"), { required: ["path"] });
  t.notOk(schemaOf("/api/keys/{id}/rotate", "post")?.required, "a member with a default may be omitted");
  t.equal((await ask("POST", "/api/reload", { body: { user: "" } })).status, 400);
});
