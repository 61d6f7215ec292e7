import { lookup } from "node:dns/promises";
import { statfsSync } from "node:fs";
import { OidcSignIn } from "../admin/oidc.ts";
import { formatSignInError } from "../admin/sign-in-errors.ts";
import type { Config, ConfiguredProvider } from "../config/types.ts";
import type { Protocol } from "../core/protocol.ts";
import { demoProviders } from "../marketplace/marketplace-of.ts";
import { isBuffered, measureArrivals } from "../setup/arrivals.ts";
import { listModels, type VendorListing } from "../setup/listing.ts";
import { folderProblem, journalFolder } from "../store/journal/files.ts";
import { missingSecretWarning, readSecret } from "../store/secret.ts";
import { nearestFolder, sqliteAccessProblem, sqliteFileProblem } from "../store/sqlite/file-problem.ts";
import { formatError, UsageError } from "../text/format-error.ts";
import { countNoun, groupDigits, printTable } from "../text/table.ts";
import { basePath } from "../upstream/address.ts";
import { Agents } from "../upstream/agents.ts";
import { checkStores } from "./store-warnings.ts";
import { FRONT_OPTIONS, parseBaseUrl, parseVerbArguments, printJson, type Terminal } from "./verb.ts";

/** One check and its result. */
export interface DoctorFinding {
  state: "ok" | "bad" | "off" | "unknown";
  what: string;
  name: string;
  message: string;
}

/** Maximum clock difference in milliseconds: keys expire and budgets begin by our clock. */
const MAX_SKEW = 30_000;

const MEBIBYTE = 2 ** 20;
/** Mebibytes: with less a ledger is soon full. */
const MIN_FREE = 100;

/** Runs the verb `doctor`. Returns the exit code: a test without a result does not count as passed. @throws UsageError */
export async function runDoctor(
  args: readonly string[],
  io: Terminal,
  config: Config,
  protocols: readonly Protocol[],
): Promise<number> {
  const { values } = parseVerbArguments(args, FRONT_OPTIONS);
  const key = values.key ?? io.env["GATEWAY_KEY"];
  const url = values.url === undefined ? undefined : parseBaseUrl(values.url);
  if (url !== undefined && key === undefined)
    throw new UsageError("--url needs a gateway key: --key, or the variable GATEWAY_KEY");
  const alone = url === undefined && (["key", "model"] as const).find((option) => values[option] !== undefined);
  if (alone) throw new UsageError(`--${alone} is for the test of --url, which is missing`);
  const found = await Promise.all(config.providers.map((provider) => providerFindings(provider, protocols, io.env)));
  const findings = [
    ...found.flatMap(({ findings }) => findings),
    ...(await dnsFindings(config.providers, io.env)),
    ...(await storeFindings(config)),
    ...ledgerFileFindings(config),
    ...journalFindings(config),
    ...(await signInFindings(config)),
    ...secretFindings(config),
    ...clockFindings(found.flatMap(({ listings }) => listings)),
    ...(url === undefined ? [] : [await frontFinding(url, key as string, values.model ?? slowModel(config))]),
  ];
  if (values.json) printJson(findings, io);
  else {
    const columns = ["", "WHAT", "NAME", ""];
    const rows = findings.map(({ state, what, name, message }) => [state, what, name, message]);
    printTable(columns, rows, io);
    if (url === undefined) io.out("\nTo test the proxy in front: --url, with the URL that clients use.");
  }
  return findings.some(({ state }) => state === "bad" || state === "unknown") ? 1 : 0;
}

async function providerFindings(
  provider: ConfiguredProvider,
  protocols: readonly Protocol[],
  env: NodeJS.ProcessEnv,
): Promise<{ findings: DoctorFinding[]; listings: VendorListing[] }> {
  const { name, url, off, credentials, header } = provider;
  const finding = (state: DoctorFinding["state"], message: string): DoctorFinding => ({
    state,
    what: "provider",
    name,
    message,
  });
  if (off !== undefined) return { findings: [finding("off", off)], listings: [] };
  if (url === "demo:") return { findings: [finding("ok", "built in")], listings: [] };
  const protocol = protocols.find((each) => each.name === provider.speaks[0]) as Protocol;
  const each = credentials.length > 0 ? credentials : [undefined];
  const listings: VendorListing[] = [];
  const findings: DoctorFinding[] = [];
  for (const credential of each) {
    const query = { protocol, secret: credential?.secret, header };
    const address = `${url.origin}${basePath(url, protocol)}`;
    const listing = await listModels({ url: address, ...query }, undefined, env);
    listings.push(listing);
    const label = credential === undefined ? "" : `${credential.label}: `;
    const { models, problem, time, status } = listing;
    if (models) findings.push(finding("ok", `${label}${countNoun(models.length, "model")} in ${time} ms`));
    else if (status === 404) {
      // Some servers have no list; the response shows that they are reachable.
      const below = `${address}${protocol.versionSegment}`;
      findings.push(
        (await listModels({ url: below, ...query }, undefined, env)).models
          ? finding("bad", `${label}its models are listed at another URL (404 here); write url: ${below}`)
          : finding(
              "ok",
              `${label}reachable, but lists no models (404), in ${time} ms; is url right? Most end in a version, like ${protocol.versionSegment}`,
            ),
      );
    } else findings.push(finding(status === 429 ? "ok" : "bad", `${label}${problem}`));
  }
  return { findings, listings };
}

/** Looks up the names of providers, except for those that a proxy looks up. */
async function dnsFindings(providers: readonly ConfiguredProvider[], env: NodeJS.ProcessEnv): Promise<DoctorFinding[]> {
  const agents = new Agents(env);
  const hosts = providers.flatMap(({ url, off }) =>
    url === "demo:" || off !== undefined || agents.proxyFor(url) ? [] : [url.hostname],
  );
  const names = [...new Set(hosts)].filter((host) => !/^[\d.]+$|^\[/.test(host));
  return Promise.all(
    names.map(async (name): Promise<DoctorFinding> => {
      const began = performance.now();
      try {
        const found = await lookup(name, { all: true });
        const message = `${found.length} ${found.length === 1 ? "address" : "addresses"} in ${Math.round(performance.now() - began)} ms`;
        return { state: "ok", what: "dns", name, message };
      } catch (thrown) {
        return { state: "bad", what: "dns", name, message: `not found: ${(thrown as NodeJS.ErrnoException).code}` };
      }
    }),
  );
}

/** Checks the servers that hold the store. */
async function storeFindings(config: Config): Promise<DoctorFinding[]> {
  const answers = await checkStores(config);
  return answers.map(({ setting, problem }) => ({
    ...{ what: "store", name: setting },
    ...(problem === undefined ? { state: "ok", message: "usable" } : { state: "bad", message: problem }),
  }));
}

/** Checks whether this user can write the SQLite file, and whether its disk has room; the gateway creates missing folders. */
function ledgerFileFindings({ store: { ledger, postgres } }: Config): DoctorFinding[] {
  if (postgres || ledger === ":memory:") return [];
  const finding = { what: "store", name: "ledger" };
  const message = sqliteFileProblem(ledger) ?? sqliteAccessProblem(ledger);
  if (message !== undefined) return [{ ...finding, state: "bad", message }];
  const { bavail, bsize } = statfsSync(nearestFolder(ledger));
  const free = Math.floor((bavail * bsize) / MEBIBYTE);
  return [{ ...finding, state: free < MIN_FREE ? "bad" : "ok", message: `${ledger}: ${groupDigits(free)} MiB free` }];
}

/** Checks the folder of this machine's journals; nothing is said of one that this user can use. */
function journalFindings({ store: { ledger, postgres } }: Config): DoctorFinding[] {
  if (ledger === ":memory:") return [];
  const problem = folderProblem(postgres?.journal ?? journalFolder(ledger));
  const message = `${problem}; let this user read and write that folder`;
  return problem === undefined ? [] : [{ state: "bad", what: "store", name: "journal", message }];
}

/** Checks the identity provider by requesting its sign-in address, like the console. */
async function signInFindings({ adminAccess: { oidc } }: Config): Promise<DoctorFinding[]> {
  if (!oidc) return [];
  const finding = { what: "sign-in", name: oidc.issuer.href };
  const began = performance.now();
  try {
    await new OidcSignIn(oidc).begin("/");
    return [{ ...finding, state: "ok", message: `usable, in ${Math.round(performance.now() - began)} ms` }];
  } catch (thrown) {
    return [{ ...finding, state: "bad", message: formatSignInError(thrown) }];
  }
}

/** Checks the secret beside a SQLite file; nothing is said of one that this user can use, and of a new file, which has none yet. */
function secretFindings({ store: { ledger, postgres }, envelopes }: Config): DoctorFinding[] {
  if (postgres || ledger === ":memory:" || envelopes.key !== undefined) return [];
  const message = missingSecretWarning(ledger) ?? unusableSecretReason(ledger);
  return message === undefined ? [] : [{ state: "bad", what: "secret", name: `${ledger}.secret`, message }];
}

/** Returns why a start would end at the secret; undefined: it can be read, or there is none. */
function unusableSecretReason(ledger: string): string | undefined {
  try {
    readSecret(ledger);
    return undefined;
  } catch (thrown) {
    return formatError(thrown);
  }
}

/** Compares our clock with the median of the providers': they are not all wrong by the same time. */
function clockFindings(listings: readonly VendorListing[]): DoctorFinding[] {
  const skews = listings.flatMap(({ date }) => (date === undefined ? [] : [Date.now() - date])).sort((a, b) => a - b);
  const skew = skews[Math.floor(skews.length / 2)];
  if (skew === undefined) return [];
  const seconds = Math.round(Math.abs(skew) / 1000);
  const clock = { what: "clock", name: "" };
  if (Math.abs(skew) <= MAX_SKEW)
    return [{ ...clock, state: "ok", message: `within ${Math.max(1, seconds)} s of the providers'` }];
  return [
    {
      ...clock,
      state: "bad",
      message: `${seconds} s ${skew > 0 ? "ahead of" : "behind"} the providers': keys expire and budgets begin by this clock; enable NTP`,
    },
  ];
}

/** Returns the id of a built-in model that streams slowly; undefined: there is none. */
function slowModel({ models, providers }: Config): string | undefined {
  const demo = demoProviders(providers);
  return models.find(({ targets }) => targets.some(({ provider, model }) => demo.has(provider) && model === "slow"))
    ?.id;
}

async function frontFinding(url: string, key: string, model: string | undefined): Promise<DoctorFinding> {
  const finding = { what: "front", name: url };
  if (model === undefined)
    return {
      ...finding,
      state: "unknown",
      message:
        "not tested: gateway.yaml has no model with the target slow of the built-in provider; name a model that streams for at least a second with --model",
    };
  const arrivals = await measureArrivals(url, key, model);
  if ("problem" in arrivals) return { ...finding, state: "bad", message: arrivals.problem };
  const { first, last, pieces } = arrivals;
  const buffered = isBuffered(arrivals);
  if (buffered === undefined)
    return {
      ...finding,
      state: "unknown",
      message: `not conclusive: the whole answer of ${model} took only ${Math.round(last)} ms; name a model that streams for at least a second with --model, like one with the target demo:slow`,
    };
  if (buffered)
    return {
      ...finding,
      state: "bad",
      message: `buffers streams: all of it arrived at once after ${Math.round(last)} ms; disable buffering there (deploy/nginx has the block)`,
    };
  return {
    ...finding,
    state: "ok",
    message: `forwards streams at once: first piece after ${Math.round(first)} ms, ${pieces} pieces in ${Math.round(last)} ms`,
  };
}
