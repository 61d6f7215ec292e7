import { writeFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { findExtensions } from "../../src/loaded-config.ts";
import { loadVendors, vendorProtocols } from "../../src/loader/vendors.ts";

t.test("every vendor's file is valid: its protocols exist, its address has a version", async (t) => {
  const { protocols } = await findExtensions(t.testdir({}));
  const vendors = loadVendors();
  t.ok(vendors.length > 10);
  for (const vendor of vendors) {
    t.ok(vendorProtocols(vendor).length > 0, vendor.id);
    for (const name of vendorProtocols(vendor)) t.ok(protocols.has(name), `${vendor.id} speaks ${name}`);
    t.match(new URL(vendor.provider.url).pathname, /\/v\d/, vendor.id);
  }
  t.equal(vendors[0]?.id, "openai", "in their order");
});

t.test("an invalid file is reported with its name and member", async (t) => {
  const folder = t.testdir({});
  writeFileSync(join(folder, "acme.yaml"), "name: Acme\nprovider: { url: https://acme.example/v1 }\nvarables: []\n");
  t.throws(() => loadVendors(folder), { message: /acme\.yaml[\s\S]*varables/ });
});
