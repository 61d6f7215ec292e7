import { acceptsKeyless } from "../config/keyless.ts";
import { literalSecrets, settingPosition } from "../config/load.ts";
import type { Config } from "../config/types.ts";
import { groupAndParents, hasHardBudget } from "../core/limits.ts";
import { LOOPBACK, Networks } from "../core/networks.ts";
import { demoProviders } from "../marketplace/marketplace-of.ts";
import type { KeyRecord } from "../store/keys.ts";
import { UsageError } from "../text/format-error.ts";
import { printTable } from "../text/table.ts";
import { parseVerbArguments, printJson, type Terminal } from "./verb.ts";

const LEVELS = ["high", "medium", "low"] as const;
type AuditLevel = (typeof LEVELS)[number];

const OPTIONS = {
  level: { type: "string", default: "high" },
  ignore: { type: "string", default: "" },
  json: { type: "boolean" },
} as const;

/** A piece of advice. */
export interface Advice {
  id: string;
  level: AuditLevel;
  /** What it concerns, in gateway.yaml's words. */
  about: string;
  /** `file:line`; absent: the file does not contain it. */
  at?: string;
  message: string;
  fix: string;
}

type Rule = Pick<Advice, "id" | "level" | "message" | "fix"> & {
  /** The setting to change, below what the advice concerns. */
  setting?: readonly string[];
  /** Returns what it concerns; empty: nothing to advise. */
  find(config: Config, file: Pick<Config, "file" | "text">, groups: KeyGroups): (string | AuditSubject)[];
};

/** The groups of all keys, each once; undefined: they are unknown, or there are no keys. */
type KeyGroups = ReadonlySet<string> | undefined;

/** A finding whose place does not follow from its name. */
interface AuditSubject {
  about: string;
  /** Where to change it: the first path that exists in the file. */
  paths?: readonly (readonly string[])[];
  line?: number;
}

/** Addresses of this machine and of private networks. */
const PRIVATE_NETWORKS = new Networks([
  "127.0.0.0/8",
  "::1/128",
  "10.0.0.0/8",
  "172.16.0.0/12",
  "192.168.0.0/16",
  "fc00::/7",
]);
/** Names that no public name server resolves: of containers, services of a cluster, and local networks. */
const PRIVATE_NAME = /^[^.:]+$|\.(?:local|localhost|internal|svc|lan|home\.arpa)$/;
const isPrivateHost = (host: string): boolean =>
  PRIVATE_NAME.test(host) || PRIVATE_NETWORKS.has(host.replace(/^\[|\]$/g, ""));

/** First octets of public IPv4 addresses, and public IPv6 addresses of all regions. */
const PUBLIC_OCTETS = Array.from({ length: 223 }, (_, i) => i + 1).filter((octet) => octet !== 10 && octet !== 127);
const PUBLIC_IPV6 = ["2001:fff::1", "2400:fff::1", "2600:fff::1", "2800:fff::1", "2a00:fff::1", "2c00:fff::1"];
/** More than that of them: no operator has proxies there. */
const [MAX_OCTETS, MAX_REGIONS] = [32, 2];

/** Reports whether a list contains a large part of the internet, in whatever pieces. */
function containsInternet(texts: readonly string[]): boolean {
  const networks = new Networks(texts);
  const octets = PUBLIC_OCTETS.filter((octet) => networks.has(`${octet}.254.253.252`));
  return octets.length > MAX_OCTETS || PUBLIC_IPV6.filter((each) => networks.has(each)).length > MAX_REGIONS;
}

/** Finds paths that serve models without a plugin in their chain; the place to change is the chain. */
const pathsWithout = (plugin: string) => (config: Config) =>
  config.paths.flatMap(({ path, protocol, use }) =>
    protocol !== undefined && !config.chains.get(use)?.includes(plugin)
      ? [
          {
            about: `paths ${path}`,
            paths: [
              ["chains", use],
              ["paths", path, "use"],
            ],
          },
        ]
      : [],
  );

/** Approximate milliseconds that clients wait for a first byte: programs vary, people wait less. */
const CLIENT_TIMEOUT = 120_000;

const RULES: readonly Rule[] = [
  {
    id: "no-auth",
    level: "high",
    message: "anyone who reaches it may use the providers' accounts",
    fix: 'put "auth" into its chain',
    find: pathsWithout("auth"),
  },
  {
    id: "anonymous",
    level: "high",
    setting: ["anonymous"],
    message: "requests without a key are accepted",
    fix: "remove anonymous: true from plugins: auth",
    find: (config) => (acceptsKeyless(config) ? ["plugins auth"] : []),
  },
  {
    id: "plain-http",
    level: "high",
    setting: ["url"],
    message: "all requests, with its credential if it has one, are sent unencrypted over public networks",
    fix: "use https",
    find: ({ providers }) =>
      providers.flatMap(({ name, url }) =>
        url !== "demo:" && url.protocol === "http:" && !isPrivateHost(url.hostname) ? [`providers ${name}`] : [],
      ),
  },
  {
    id: "trusted-clients",
    level: "high",
    message:
      "clients name their own address in X-Forwarded-For: keys bound to addresses and limits per address do not hold",
    fix: "list the addresses of the proxies only, like trust: [127.0.0.1]",
    find: ({ trust }) => (containsInternet(trust) ? ["trust"] : []),
  },
  {
    id: "written-secret",
    level: "high",
    message: "the file contains a secret, which every copy of the file reveals",
    fix: "write $NAME or $file:/run/secrets/NAME",
    find: (_config, file) =>
      literalSecrets(file).map(({ path, line }) => ({
        about: path.filter((step) => typeof step === "string").join(" "),
        line,
      })),
  },
  {
    id: "open-pass",
    level: "high",
    message: "keys with a budget or a list of models may use everything of the provider there, without being counted",
    fix: "remove open: true and mint: true, or use separate keys for the path",
    find: ({ paths }) => paths.flatMap(({ path, pass }) => (pass?.open || pass?.mint ? [`paths ${path}`] : [])),
  },
  {
    id: "no-limits",
    level: "medium",
    message: "a key may spend without limit",
    fix: "limits: { default: { budget: $50/month } }",
    find: ({ limits }) =>
      hasHardBudget(limits.default?.budgets) || hasHardBudget(limits.all?.budgets) ? [] : ["limits"],
  },
  {
    id: "no-limits-plugin",
    level: "medium",
    message: "no limits apply there",
    fix: 'put "limits" after "models" in its chain',
    find: pathsWithout("limits"),
  },
  {
    id: "no-usage",
    level: "medium",
    message: "usage there is not recorded in the ledger",
    fix: 'put "usage" at the end of its chain',
    find: pathsWithout("usage"),
  },
  {
    id: "no-rewrite",
    level: "medium",
    message: "providers there get the client's name of the model, and nothing is translated",
    fix: 'put "rewrite" after "models" in its chain',
    find: pathsWithout("rewrite"),
  },
  {
    id: "public-listener",
    level: "medium",
    message: "it accepts connections from everywhere, without TLS",
    fix: "listen on 127.0.0.1 with nginx in front (deploy/nginx), and trust: [127.0.0.1]",
    find: ({ listen }) => (LOOPBACK.test(listen.host) ? [] : ["listen"]),
  },
  {
    id: "public-admin",
    level: "medium",
    setting: ["listen"],
    message: "its tokens, and the contents of requests, are sent unencrypted over the network",
    fix: "admin: { listen: 127.0.0.1:9090 }, and a proxy with TLS in front if people sign in from elsewhere",
    find: ({ admin }) => (!admin || "path" in admin || LOOPBACK.test(admin.host) ? [] : ["admin"]),
  },
  {
    id: "shared-objects",
    level: "medium",
    message: "each key can use files and answers that other keys created",
    fix: "remove share: all",
    find: ({ share }) => (share === "all" ? ["share"] : []),
  },
  {
    id: "no-fallback",
    level: "low",
    message: "it is unavailable while its only target is",
    fix: "add a second target, or fallback: [another model]",
    find: ({ models, providers }) => {
      const demo = demoProviders(providers);
      return models.flatMap(({ id, targets, fallback }) =>
        targets.length + fallback.length === 1 && !demo.has(targets[0]?.provider ?? "") ? [`models ${id}`] : [],
      );
    },
  },
  {
    id: "unused-group",
    level: "low",
    message: "no key is in this group or below it, so its limits apply to nobody",
    fix: "correct its name, or remove it",
    find: ({ limits }, _file, groups) => {
      const used = groups && new Set([...groups].flatMap(groupAndParents));
      const unused = used ? [...(limits.groups?.keys() ?? [])].filter((name) => !used.has(name)) : [];
      return unused.map((name) => ({ about: `limits groups ${name}`, paths: [["limits", "groups", name]] }));
    },
  },
  {
    id: "lasting-key",
    level: "low",
    message: "it never expires",
    fix: "expires: 2027-12-31",
    find: ({ keys }) => keys.flatMap(({ name, expires }) => (expires === undefined ? [`keys ${name}`] : [])),
  },
  {
    id: "expired-key",
    level: "low",
    setting: ["expires"],
    message: "it has expired",
    fix: "remove it, or set a later date",
    find: ({ keys }) =>
      keys.flatMap(({ name, expires = Number.POSITIVE_INFINITY }) => (expires <= Date.now() ? [`keys ${name}`] : [])),
  },
  {
    id: "cut-streams",
    level: "low",
    setting: ["cut"],
    message:
      "when a client leaves an answer before its end, what the provider has not sent yet, and reasoning it has not reported yet, is not counted",
    fix: "plugins: { usage: { cut: drain } }, which reads each answer to its end, if clients must not be able to exceed budgets in this way",
    find: ({ budgets, providers, plugins }) => {
      const { cut } = (plugins.get("usage")?.options ?? {}) as { cut?: string };
      const usesNetwork = providers.some(({ url }) => url !== "demo:");
      return usesNetwork && budgets.some(({ hard }) => hard) && cut !== "drain" ? ["plugins usage"] : [];
    },
  },
  {
    id: "long-wait",
    level: "low",
    message: "its first byte may take longer than clients wait: when it hangs they leave, and no other target is tried",
    fix: "health: { slow: 60s }, or timeouts: { first_byte: 60s }, below the time after which clients give up",
    find: ({ providers }) =>
      providers.flatMap(({ name, url, health, timeouts: { first_byte: longest } }) =>
        url !== "demo:" && health.slow === 0 && (longest === 0 || longest > CLIENT_TIMEOUT)
          ? [`providers ${name}`]
          : [],
      ),
  },
  {
    id: "no-scrub",
    level: "low",
    message: "marks of other services are forwarded to providers",
    fix: 'put "scrub" after "auth" in its chain',
    find: pathsWithout("scrub"),
  },
  {
    id: "no-probes",
    level: "low",
    message: "nothing can check its health",
    fix: "admin: 127.0.0.1:9090",
    find: ({ admin }) => (admin ? [] : ["admin"]),
  },
  {
    id: "debug-log",
    level: "low",
    setting: ["level"],
    message: "the log contains more than necessary",
    fix: "log: { level: info }",
    find: ({ log }) => (["debug", "trace"].includes(log.level) ? ["log"] : []),
  },
];

/**
 * Runs the verb `audit`. Returns the exit code.
 * @param text the file as written
 * @param storeKeys returns the keys of the store; undefined: it cannot be read
 * @throws UsageError
 */
export async function runAudit(
  args: readonly string[],
  io: Terminal,
  config: Config,
  text: string,
  storeKeys: () => Promise<readonly KeyRecord[] | undefined>,
): Promise<number> {
  const { values } = parseVerbArguments(args, OPTIONS);
  const most = LEVELS.indexOf(values.level as AuditLevel);
  if (most < 0) throw new UsageError(`--level ${values.level}: choose from ${LEVELS.join(", ")}.`);
  const ignored = values.ignore
    .split(",")
    .map((id) => id.trim())
    .filter(Boolean);
  const unknownId = ignored.find((id) => !RULES.some((rule) => rule.id === id));
  if (unknownId !== undefined)
    throw new UsageError(`--ignore ${unknownId}: unknown id; known are ${RULES.map(({ id }) => id).join(", ")}.`);
  const file = { file: config.file, text };
  const serving = (await storeKeys())?.filter(({ revoked }) => revoked === undefined) ?? [];
  const groups = serving.length === 0 ? undefined : new Set(serving.flatMap(({ group }) => group ?? []));
  const advice = RULES.filter(({ id }) => !ignored.includes(id)).flatMap(({ find, setting = [], ...rule }) =>
    find(config, file, groups).map((found): Advice => {
      const each = typeof found === "string" ? { about: found } : found;
      return { ...rule, about: each.about, ...advicePosition(file, each, setting) };
    }),
  );
  if (values.json) printJson(advice, io);
  else if (advice.length === 0) io.out("no advice");
  else printTable(["LEVEL", "ID", "PROBLEM, PLACE, FIX"], adviceRows(advice), io);
  return advice.some(({ level }) => LEVELS.indexOf(level) <= most) ? 1 : 0;
}

/** Returns where in the file to apply advice; empty if only a default is in effect. */
function advicePosition(
  file: Pick<Config, "file" | "text">,
  { about, paths = [], line }: AuditSubject,
  setting: readonly string[],
): Pick<Advice, "at"> {
  if (line !== undefined) return { at: `${settingPosition(file, [])?.file}:${line}` };
  const [section = "", ...rest] = about.split(" ");
  const path = rest.length === 0 ? [section] : [section, rest.join(" ")];
  for (const each of [...paths, [...path, ...setting], path]) {
    const found = settingPosition(file, each);
    if (found) return { at: `${found.file}:${found.line}` };
  }
  return {};
}

/** Number of subjects named per piece of advice. */
const MAX_SUBJECTS = 3;

/** Three rows for each id: lines that a terminal can show. */
function adviceRows(advice: readonly Advice[]): string[][] {
  const byId = Map.groupBy(advice, ({ id }) => id);
  return [...byId.values()].flatMap((all) => {
    const [{ level, id, message, fix }] = all as [Advice, ...Advice[]];
    const named = all.slice(0, MAX_SUBJECTS).map(({ about, at }) => (at === undefined ? about : `${about} (${at})`));
    const more = all.length > MAX_SUBJECTS ? `, and ${all.length - MAX_SUBJECTS} more` : "";
    return [
      [level, id, message],
      ["", "", named.join(", ") + more],
      ["", "", `fix: ${fix}`],
    ];
  });
}
