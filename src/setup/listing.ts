import { request as secure } from "node:https";
import { request as plain } from "../core/node-http.ts";
import type { Protocol } from "../core/protocol.ts";
import { Agents } from "../upstream/agents.ts";
import { TRANSPORT_REASONS } from "../upstream/transport-reasons.ts";
import { asObject, parseJson } from "../wire/values.ts";

/** A model in a provider's list. */
export interface VendorModel {
  id: string;
  name?: string;
  /** Unix seconds. */
  created?: number;
  /** Context window in tokens. */
  context?: number;
}

/** The provider to query, and its credential. */
interface ListingRequest {
  /** Base URL that ends with the version segment. */
  url: string;
  protocol: Protocol;
  /** The credential, if the provider needs one. */
  secret?: string | undefined;
  /** Header for it, where it is not the protocol's usual one. */
  header?: string | undefined;
}

/** The result of querying a provider's models. */
export interface VendorListing {
  /** Absent: it returned no list. */
  models?: VendorModel[];
  /** HTTP status; absent: it could not be reached. */
  status?: number;
  /** The problem, without secrets. */
  problem?: string;
  /** Duration in milliseconds. */
  time: number;
  /** Unix milliseconds of the response's Date header, if it has one. */
  date?: number;
}

/** Timeout in milliseconds. */
const TIMEOUT = 10_000;

/** Limit of pages that are read; vendors have one or two. */
const MAX_PAGES = 50;

/** Limit of characters of a page; long lists have half a million. */
const MAX_PAGE = 33_554_432;

/**
 * Lists all models of a provider, which costs nothing and checks the credential. Never throws.
 * @param timeout the timeout in milliseconds
 * @param env where HTTPS_PROXY, HTTP_PROXY and NO_PROXY are looked up, as for requests of clients
 */
export async function listModels(
  { url, protocol, secret, header }: ListingRequest,
  timeout = TIMEOUT,
  env: NodeJS.ProcessEnv = process.env,
): Promise<VendorListing> {
  const headers = new Headers({ accept: "application/json" });
  for (const [name, value] of protocol.defaultHeaders ?? []) headers.set(name, value);
  if (secret !== undefined) {
    const [name, value] = header === undefined ? protocol.credential(secret) : [header, secret];
    headers.set(name, value);
  }
  const began = performance.now();
  const took = () => Math.round(performance.now() - began);
  let agents: Agents | undefined;
  try {
    agents = new Agents(env);
    const all: VendorModel[] = [];
    const signal = AbortSignal.timeout(timeout);
    let query = "";
    for (let page = 1; ; page++) {
      const address = `${url.replace(/\/$/, "")}/models${query}`;
      const { status, text, ...times } = await get(new URL(address), headers, agents, signal);
      const dateHeader = Date.parse(times.date ?? "");
      const date = Number.isNaN(dateHeader) ? {} : { date: dateHeader };
      if (status !== 200) return { status, problem: statusReason(status), time: took(), ...date };
      const found = parsePage(text);
      if (!found) return { status, problem: "its response is not a list of models", time: took(), ...date };
      all.push(...found.models);
      if (found.nextQuery === undefined || page === MAX_PAGES) return { status, models: all, time: took(), ...date };
      query = `?${new URLSearchParams(found.nextQuery)}`;
    }
  } catch (thrown) {
    return { problem: unreachableReason(thrown, timeout), time: took() };
  } finally {
    agents?.close();
  }
}

/** Requests a page. Redirects are not followed. */
function get(
  url: URL,
  headers: Headers,
  agents: Agents,
  signal: AbortSignal,
): Promise<{ status: number; text: string; date: string | undefined }> {
  return new Promise((done, failed) => {
    const fail = (error: Error) => failed(signal.aborted ? signal.reason : error);
    const options = { agent: agents.get(url, "models", TIMEOUT), signal, headers: Object.fromEntries(headers) };
    const outgoing = (url.protocol === "https:" ? secure : plain)(url, options, (answer) => {
      let text = "";
      answer.setEncoding("utf8").on("error", fail);
      answer.on("data", (more: string) => {
        text += more;
        if (text.length > MAX_PAGE) outgoing.destroy(new Error("its response is too large"));
      });
      answer.on("end", () => done({ status: answer.statusCode ?? 0, text, date: answer.headers.date }));
    });
    outgoing.on("error", fail).end();
  });
}

const statusReason = (status: number): string =>
  status === 401 || status === 403
    ? `it does not accept the credential (${status})`
    : status >= 300 && status < 400
      ? `it responds with a redirect (${status}): use its target as the URL`
      : status === 404
        ? "it has no list of models at this URL (404): does the URL end with the version segment?"
        : status === 429
          ? "it is limiting requests now (429), but accepts the credential"
          : `it answers ${status}`;

/** Describes why a provider could not be reached. @param timeout the timeout in milliseconds */
export function unreachableReason(thrown: unknown, timeout: number): string {
  const error = thrown as Error & { cause?: NodeJS.ErrnoException };
  if (error.name === "TimeoutError") return `it did not answer within ${timeout / 1000} s`;
  const { code, message } = error.cause ?? (error as NodeJS.ErrnoException);
  // Like browsers, fetch refuses ports of well-known other services.
  if (message === "bad port")
    return "not tested: fetch, which this test uses, blocks that port; the gateway itself can use it";
  // An error of TLS that a write meets first has only OpenSSL's text; Node's own codes are made of the same words.
  const [, reason] = /:SSL routines:[^:]*:([^:]+):/.exec(message) ?? [];
  const name = reason === undefined ? code : `ERR_SSL_${reason.toUpperCase().replaceAll(" ", "_")}`;
  return TRANSPORT_REASONS.get(name ?? "") ?? `it could not be reached: ${reason ?? message}`;
}

/** A page of a list, and the query of the next one. */
interface Page {
  models: VendorModel[];
  nextQuery?: Record<string, string>;
}

/** Parses the forms in which vendors list models: `data` with ids, or `models` with names. */
function parsePage(text: string): Page | undefined {
  const json = asObject(parseJson(text));
  const list = Array.isArray(json?.["data"]) ? json["data"] : json?.["models"];
  if (!Array.isArray(list)) return undefined;
  const models = list.flatMap((each): VendorModel[] => {
    const entry = asObject(each) ?? {};
    const id = entry["id"] ?? entry["name"];
    if (typeof id !== "string") return [];
    const name = entry["display_name"] ?? entry["displayName"];
    const created = entry["created"] ?? seconds(entry["created_at"]);
    const context = entry["inputTokenLimit"] ?? entry["max_input_tokens"] ?? entry["context_length"];
    return [
      {
        id: id.replace(/^models\//, ""),
        ...(typeof name === "string" && { name }),
        ...(typeof created === "number" && { created }),
        ...(typeof context === "number" && { context }),
      },
    ];
  });
  const nextQuery = nextPageQuery(json ?? {});
  return { models, ...(nextQuery && { nextQuery }) };
}

/** Returns the query of the next page, where there is one: with a token, or with the last id of this page. */
function nextPageQuery({
  nextPageToken,
  has_more: hasMore,
  last_id: last,
}: Record<string, unknown>): Page["nextQuery"] {
  if (typeof nextPageToken === "string" && nextPageToken !== "") return { pageToken: nextPageToken };
  return hasMore === true && typeof last === "string" ? { after_id: last } : undefined;
}

const seconds = (text: unknown): number | undefined => {
  const moment = typeof text === "string" ? Date.parse(text) : Number.NaN;
  return Number.isNaN(moment) ? undefined : moment / 1000;
};
