import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import type { Config } from "../config/types.ts";
import { processContainer } from "../container.ts";
import { Body } from "../core/body.ts";
import { Calendar } from "../core/calendar.ts";
import { GatewayError, thrownMessage } from "../core/errors.ts";
import { Exchange } from "../core/exchange.ts";
import { fileProblem } from "../core/file-problem.ts";
import { newId } from "../core/id.ts";
import { plainAddress } from "../core/networks.ts";
import type { RouteMatch } from "../downstream/paths.ts";
import { takeKeys } from "../downstream/presented-keys.ts";
import { wantsStrict } from "../downstream/strict-header.ts";
import { NullLog } from "../dry-start.ts";
import type { ExplainedStep, ExplainedTarget, Explanation } from "../explain.ts";
import { explainExchange } from "../explain.ts";
import { Generation } from "../generation.ts";
import type { LoadedConfig } from "../loaded-config.ts";
import type { KeyRecord, Keys } from "../store/keys.ts";
import { MemoryLimiter } from "../store/memory-limiter.ts";
import { connectToRead, type Stores } from "../store/open.ts";
import { spendSince } from "../store/spend.ts";
import { UsageError } from "../text/format-error.ts";
import { formatCost, groupDigits } from "../text/table.ts";
import { Envelopes } from "../translation/envelope.ts";
import { UpstreamResources } from "../upstream-resources.ts";
import { HeaderList } from "../wire/headers.ts";
import { scan } from "../wire/json.ts";
import { Query } from "../wire/query.ts";
import { COMMAND, parseVerbArguments, printJson, type Terminal } from "./verb.ts";

const OPTIONS = {
  model: { type: "string" },
  key: { type: "string" },
  body: { type: "string" },
  header: { type: "string", multiple: true },
  address: { type: "string" },
  sent: { type: "boolean" },
  json: { type: "boolean" },
} as const;

interface ExplainedRequest {
  method: string;
  path: string;
  query: string;
  body: string | undefined;
  model: string | undefined;
  headers: HeaderList;
  /** Whether a key is named, so that credentials of the request do not count. */
  named: boolean;
  address: string;
}

/** A placeholder for the key in the request, if only its name is known. */
const KEY_PLACEHOLDER = "the-key-that-is-named";
/** A key without limits of its own. */
const ANY_KEY: KeyRecord = { id: "explain", name: "any key", hash: "", source: "file", created: 0 };
/** A short request for each path. */
const SAMPLES = new URL("../../plugins/warm-up/requests.json", import.meta.url);

/** Runs the verb `explain`. Returns the exit code. @throws UsageError */
export async function runExplain(args: readonly string[], io: Terminal, loaded: LoadedConfig): Promise<number> {
  const { values, positionals } = parseVerbArguments(args, OPTIONS, 1);
  const [method, path, query] = parseRequestTarget(positionals[0] ?? "/v1/chat/completions");
  const body = bodyArgument(values.body, io);
  const headers = parseHeaders(values.header ?? []);
  const named = values.key !== undefined;
  const request = {
    method,
    path,
    query,
    body,
    model: values.model,
    headers,
    named,
    address: parseAddress(values.address ?? "127.0.0.1"),
  };
  // The store matters only if a key is named.
  const warn = values.key === undefined ? () => {} : io.err;
  const stores = await connectToRead(loaded.config.store, loaded.config.keys, warn);
  try {
    const record = await findKey(values.key, stores);
    const explanation = await explainDry(request, loaded, stores, record);
    if (values.json) printJson({ ...explanation, off: skippedTargets(explanation, loaded.config) }, io);
    else for (const line of explanationLines(explanation, loaded.config, values.sent ?? false)) io.out(line);
    return explanation.refused ? 1 : 0;
  } catch (thrown) {
    if (!(thrown instanceof GatewayError)) throw thrown;
    const { status, code, message } = thrown;
    if (values.json) printJson({ refused: { status, code, message, by: null } }, io);
    else io.out(`refused   ${status} ${code}, before any plugin: ${message}`);
    return 1;
  } finally {
    await stores.close();
  }
}

/** @throws GatewayError for an unknown path or an invalid header, UsageError for what cannot be explained */
async function explainDry(
  request: ExplainedRequest,
  loaded: LoadedConfig,
  stores: Stores,
  record: KeyRecord,
): Promise<Explanation> {
  const generation = await buildDryGeneration(loaded, stores, record);
  try {
    return await explainRequest(request, loaded, generation);
  } finally {
    await generation.close();
  }
}

/** @throws UsageError */
function parseRequestTarget(text: string): [method: string, path: string, query: string] {
  const found = /^(?:([A-Za-z]+)[: ])?(\/[^?]*)(?:\?(.*))?$/.exec(text);
  if (!found) throw new UsageError(`"${text}" is not a path; write one like /v1/messages or GET:/v1/models`);
  return [found[1]?.toUpperCase() ?? "", found[2] as string, found[3] ?? ""];
}

/** @throws UsageError */
function parseAddress(text: string): string {
  const address = plainAddress(text);
  if (address === undefined)
    throw new UsageError(`--address ${text}: write an IP address like 203.0.113.7 or 2001:db8::7`);
  return address;
}

/** @throws UsageError */
function bodyArgument(text: string | undefined, io: Terminal): string | undefined {
  if (!text?.startsWith("@")) return text;
  try {
    return readFileSync(resolve(io.folder, text.slice(1)), "utf8");
  } catch (thrown) {
    throw new UsageError(`--body ${text}: ${fileProblem(thrown, "file")}`);
  }
}

/** @throws UsageError */
function parseHeaders(lines: readonly string[]): HeaderList {
  const headers = new HeaderList(["content-type", "application/json"]);
  for (const line of lines) {
    const [, name, value] = /^([\w-]+):\s*(.*)$/.exec(line) ?? [];
    if (name === undefined || value === undefined)
      throw new UsageError(`--header "${line}" is none, like 'name: value'`);
    headers.set(name, value);
  }
  return headers;
}

/** @throws UsageError for an unknown key */
async function findKey(idOrSecret: string | undefined, { keys }: Stores): Promise<KeyRecord> {
  if (idOrSecret === undefined) return ANY_KEY;
  const record = (await keys.show(idOrSecret)) ?? (await keys.find(idOrSecret));
  if (!record) throw new UsageError(`there is no key "${idOrSecret}": ${COMMAND} keys list`);
  return record;
}

/** Builds everything that serves requests, except a listener. */
function buildDryGeneration(
  { config, extensions }: LoadedConfig,
  stores: Stores,
  record: KeyRecord,
): Promise<Generation> {
  const log = new NullLog();
  const { ledger, owners, keptValues } = stores;
  const find = (presented: string) => (presented === KEY_PLACEHOLDER ? record : stores.keys.find(presented));
  const keys = Object.assign(Object.create(stores.keys) as Keys, { find });
  return Generation.build({
    config,
    protocols: extensions.protocolList,
    classes: extensions.classes,
    process: processContainer({ log }),
    keys,
    values: keptValues,
    ledger,
    limiter: new MemoryLimiter(spendSince(ledger), new Calendar(config.timezone), () => {}),
    owners,
    envelopes: new Envelopes(config.envelopes.key),
    carried: new UpstreamResources(extensions.protocolList),
    log,
    dry: true,
  });
}

/** @throws GatewayError for an unknown path, UsageError for what cannot be explained */
async function explainRequest(
  request: ExplainedRequest,
  loaded: LoadedConfig,
  generation: Generation,
): Promise<Explanation> {
  const { path, address } = request;
  const query = new Query(request.query);
  const headers = request.headers;
  const presented = takeKeys(headers, query);
  if (presented.length === 0) headers.delete("authorization");
  const found = findRoute(request, query, generation);
  if (found.pass) throw new UsageError(`requests of ${path} pass unread to the provider: there is nothing to explain.`);
  if (found.operation.body === "multipart")
    throw new UsageError(`${path} takes a form, which streams through: explain takes only JSON.`);
  const time = Date.now();
  const arrival = { id: newId(time), time, arrivedAt: performance.now(), address, query, headers };
  const { method } = found.operation;
  // Credentials of the request count where no key is named: a plugin of the operator's may accept others than keys.
  const credentials = request.named || presented.length === 0 ? [KEY_PLACEHOLDER] : presented;
  const strict = wantsStrict(headers) || (found.strict ?? false);
  const exchange = new Exchange({ ...found, ...arrival, method, credentials, strict });
  if (found.notice) exchange.notices.push(found.notice);
  const asks = found.operation.method === "POST" && found.operation.body === "json";
  const bytes = asks && Buffer.from(requestText(request, found, loaded, generation));
  return explainExchange(exchange, found.chain, generation, () => (bytes ? parseBody(bytes) : Body.empty), true);
}

/** @throws GatewayError `invalid_json` */
function parseBody(bytes: Buffer): Body {
  try {
    return new Body([bytes], scan(bytes));
  } catch (thrown) {
    throw new GatewayError("invalid_json", {
      message: `The body is not valid JSON: ${thrownMessage(thrown).replace(/\.$/, "")}.`,
    });
  }
}

/** Finds a request's route; without a method as POST, then as GET. @throws GatewayError for an unknown path */
function findRoute({ method, path, headers }: ExplainedRequest, query: Query, { paths }: Generation): RouteMatch {
  if (method !== "") return paths.find(method, path, query, headers);
  try {
    return paths.find("POST", path, query, headers);
  } catch (thrown) {
    try {
      return paths.find("GET", path, query, headers);
    } catch {
      throw thrown;
    }
  }
}

/** Returns the given body, or a short one for the operation, with the requested model. */
function requestText(
  request: ExplainedRequest,
  found: RouteMatch,
  { config }: LoadedConfig,
  { paths }: Generation,
): string {
  const text = request.body ?? sampleBody(found, paths);
  const model = request.model ?? (request.body === undefined ? config.models[0]?.id : undefined);
  if (model === undefined || found.pathModel !== undefined) return text;
  try {
    return JSON.stringify({ ...(JSON.parse(text) as object), model });
  } catch {
    return text;
  }
}

/** @throws UsageError if there is none */
function sampleBody({ protocol, operation }: RouteMatch, paths: Generation["paths"]): string {
  const samples = JSON.parse(readFileSync(SAMPLES, "utf8")) as { path: string; body: unknown }[];
  for (const { path, body } of samples) {
    const [clean = "", query = ""] = path.split("?");
    try {
      const found = paths.find("POST", clean, new Query(query), new HeaderList());
      if (
        found.protocol === protocol &&
        (found.operation.task ?? found.operation.name) === (operation.task ?? operation.name)
      )
        return JSON.stringify(body);
    } catch {
      // This gateway does not serve that path.
    }
  }
  throw new UsageError("this path needs a body: --body '{…}' or --body @FILE");
}

/** Returns the model's targets that are skipped because their provider is off. */
function skippedTargets({ model }: Explanation, { models, providers }: Config): { target: string; off: string }[] {
  const targets = models.find(({ id }) => id === model.id)?.targets ?? [];
  return targets.flatMap(({ provider, model }) => {
    const off = providers.find(({ name }) => name === provider)?.off;
    return off === undefined ? [] : [{ target: `${provider}:${model}`, off }];
  });
}

function explanationLines(explanation: Explanation, config: Config, sent: boolean): string[] {
  const { method, path, protocol, operation, chain, caller, model, refused, targets, maximum } = explanation;
  const lines = [
    `request   ${method} ${path}   ${protocol}, ${operation}`,
    `chain     ${chain.name === path ? "" : `${chain.name}: `}${chain.plugins.join(" → ")}`,
    `key       ${caller ? `${caller.name}${caller.group === null ? "" : ` of ${caller.group}`}` : "none"}`,
    `model     ${model.id === null ? `${model.asked ?? "none"}` : `${model.id}${model.asked === model.id ? "" : `, asked as ${model.asked}`}`}`,
    "",
    ...stepLines(explanation.steps, ""),
  ];
  if (targets.length > 0) lines.push("", "targets, in the order in which they would be tried:");
  for (const [at, target] of targets.entries()) lines.push(...targetLines(target, at + 1, sent));
  for (const { target, off } of skippedTargets(explanation, config)) lines.push(`  -  ${target}   off: ${off}`);
  lines.push("");
  if (!refused && explanation.answered_by === null)
    lines.push(`answer    passes ${explanation.answer.join(" → ") || "no plugin"}`);
  if (explanation.answered_by !== null) lines.push(`answer    comes from ${explanation.answered_by}`);
  if (maximum && !refused)
    lines.push(
      `at most   ${groupDigits(maximum.tokens)} tokens, ${maximum.usd === null ? "unpriced" : formatCost(maximum.usd * 1e9)}`,
    );
  if (refused)
    lines.push(
      `refused   ${refused.status} ${refused.code}${refused.by === null ? "" : ` by ${refused.by}`}: ${refused.message}`,
    );
  return lines;
}

const stepLines = (steps: readonly ExplainedStep[], indent: string): string[] =>
  steps.flatMap(({ plugin, phase, did }) => {
    const title = `${indent}${phase.padEnd(8)}  ${plugin.padEnd(10)}  `;
    const [first = "-", ...more] = did;
    return [`${title}${first}`, ...more.map((line) => `${" ".repeat(title.length)}${line}`)];
  });

function targetLines(
  { target, why, protocol, request, steps, notices, refused }: ExplainedTarget,
  at: number,
  sent: boolean,
): string[] {
  const lines = [`  ${at}  ${target}   ${why.join("; ")}`];
  if (request) {
    lines.push(`     ${request.method} ${request.url}   ${protocol}, credential ${request.credential ?? "none"}`);
    for (const [name, value] of request.headers) lines.push(`       ${name}: ${value}`);
    if (sent) lines.push("", `       ${request.body}`, "");
  }
  lines.push(...stepLines(steps, "     "));
  for (const notice of notices) lines.push(`     notice    ${notice}`);
  if (refused) lines.push(`     refused   ${refused.status} ${refused.code}: ${refused.message}`);
  return lines;
}
