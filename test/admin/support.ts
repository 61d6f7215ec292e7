import { request } from "node:http";
import { text } from "node:stream/consumers";
import type { Test } from "tap";
import { Admin, type AdminOptions } from "../../src/admin/admin.ts";
import { type Running, startGateway } from "../support/gateway.ts";

export const TOKEN = "admin-token-0123456789abcdef";
export const VIEWER = "viewer-token-0123456789abcdef";
export const YAML = `providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo] }, slow: { targets: [demo:slow] } }
`;
export const WITH_TOKENS = `${YAML}admin: { listen: 127.0.0.1:0, token: $ADMIN_TOKEN, viewer: $VIEWER_TOKEN, hosts: [console.test] }\n`;
const ENV = { ADMIN_TOKEN: TOKEN, VIEWER_TOKEN: VIEWER };

export interface AdminAnswerSeen {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  // biome-ignore lint/suspicious/noExplicitAny: answers of any shape.
  body: any;
}

export type AskAdmin = (
  method: string,
  path: string,
  more?: { headers?: Record<string, string>; body?: unknown },
) => Promise<AdminAnswerSeen>;

/** A gateway with its admin side, asked with any headers, Host included. */
export async function startAdmin(
  t: Test,
  yaml = YAML,
  parts: Partial<AdminOptions> = {},
  files: Record<string, string> = {},
): Promise<Running & { ask: AskAdmin; base: string }> {
  const running = await startGateway(t, yaml, files, ENV);
  const admin = new Admin(running.gateway, { log: running.log, ...parts });
  const base = await admin.listen({ host: "127.0.0.1", port: 0 });
  t.teardown(() => admin.close());
  return { ...running, base, ask: asker(base) };
}

const asker =
  (base: string): AskAdmin =>
  async (method, path, { headers = {}, body } = {}) => {
    const type = body === undefined ? {} : { "content-type": "application/json" };
    const outgoing = request(base + path, { method, headers: { ...type, ...headers } });
    const answered = new Promise<AdminAnswerSeen>((resolve, reject) => {
      outgoing.once("error", reject).once("response", async (response) => {
        const got = await text(response);
        const json = response.headers["content-type"]?.startsWith("application/json");
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: json ? JSON.parse(got) : got });
      });
    });
    outgoing.end(body === undefined ? undefined : JSON.stringify(body));
    return answered;
  };
