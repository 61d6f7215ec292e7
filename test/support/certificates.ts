import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Test } from "tap";
import { reportMissing } from "./missing.ts";

/** Files of a test authority, and of a server at 127.0.0.1 and a client with certificates signed by it. */
export interface Certificates {
  readonly authority: string;
  readonly server: { readonly cert: string; readonly key: string };
  readonly client: { readonly cert: string; readonly key: string };
}

/**
 * Creates certificates with openssl; undefined without openssl, after skipping the test; with `GATEWAY_TEST_OPENSSL=required`
 * that fails instead.
 */
export function makeCertificates(t: Test): Certificates | undefined {
  const folder = mkdtempSync(join(tmpdir(), "gateway-ca-"));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const run = (...args: string[]) => execFileSync("openssl", args, { cwd: folder, stdio: "pipe" });
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout"];
  const of = (name: string) => ({ cert: join(folder, `${name}.crt`), key: join(folder, `${name}.key`) });
  const signed = (name: string) => {
    run("req", ...key, `${name}.key`, "-subj", `/CN=${name}`, "-out", `${name}.csr`);
    writeFileSync(join(folder, `${name}.ext`), "subjectAltName = IP:127.0.0.1\n");
    const by = ["-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2"];
    run("x509", "-req", "-in", `${name}.csr`, ...by, "-extfile", `${name}.ext`, "-out", `${name}.crt`);
    return of(name);
  };
  try {
    run("req", "-x509", ...key, "ca.key", "-subj", "/CN=authority", "-days", "2", "-out", "ca.crt");
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code !== "ENOENT") throw thrown;
    reportMissing(t, "GATEWAY_TEST_OPENSSL", "openssl", "openssl");
    return undefined;
  }
  return { authority: of("ca").cert, server: signed("server"), client: signed("client") };
}
