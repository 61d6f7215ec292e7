import type { ServerResponse } from "node:http";
import type { Marketplace, Model } from "../core/marketplace.ts";
import type { Protocol } from "../core/protocol.ts";
import type { Incoming } from "../downstream/incoming.ts";
import type { Client } from "../loader/clients.ts";
import type { Health } from "../upstream/health.ts";
import { modelCard, type ProtocolCard, protocolCards } from "./model-card.ts";
import { PageFile, type PageFiles } from "./page-files.ts";

/** What the marketplace's pages ask for. */
const MODELS = "/pages/models.json";
/** Milliseconds for which one answer to that is given. */
const FRESH = 1000;

/** What the marketplace's pages show, besides the files. */
interface PublicFacts {
  readonly marketplace: Marketplace;
  readonly health: Health;
  readonly protocols: readonly Protocol[];
  /** The first path on which each protocol is served. */
  readonly paths: ReadonlyMap<string, string>;
  /** Paths that a plugin answers. */
  readonly serves: readonly string[];
  readonly clients: readonly Client[];
}

/**
 * The pages of the public side, for browsers: the marketplace, a page for each model, the playground. They show what
 * gateway.yaml calls public, and nothing of who uses it; what a key may do they ask the API, with that key.
 */
export class PublicPages {
  private readonly served: readonly ProtocolCard[];
  private models: PageFile | undefined;
  private made = Number.NEGATIVE_INFINITY;

  constructor(
    private readonly files: PageFiles,
    private readonly facts: PublicFacts,
  ) {
    this.served = protocolCards(facts.protocols, facts.paths);
  }

  /**
   * Answers a GET or HEAD that is for a page.
   * @param path as it came, without the query
   * @param id of the request
   * @returns false: it is for somebody else
   */
  answer(path: string, request: Incoming, response: ServerResponse, id: string): boolean {
    const more = ["x-request-id", id];
    const file = path === MODELS ? this.list() : this.files.find(path);
    if (file) void file.send(request, response, { more });
    else if (isPage(path) && request.lines.get("accept")?.includes("text/html"))
      void this.files
        .page("marketplace", scriptOf(path))
        .send(request, response, { more, status: this.knows(path) ? 200 : 404 });
    else return false;
    return true;
  }

  /** False for the page of a model that there is none of. */
  private knows(path: string): boolean {
    const id = /^\/models\/(.+)$/.exec(path)?.[1];
    const model = id === undefined ? undefined : this.facts.marketplace.find(unescaped(id));
    return id === undefined || (model !== undefined && isPublic(model));
  }

  private list(): PageFile {
    const now = Date.now();
    if (this.models && now - this.made < FRESH) return this.models;
    const { marketplace, health, protocols, clients, serves } = this.facts;
    const served = this.served.map(({ name }) => name);
    const shown = marketplace.models.filter(isPublic);
    const models = shown.map((model) => modelCard(model, served, { health, protocols, now }));
    const body = JSON.stringify({ models, protocols: this.served, serves, clients });
    this.models = new PageFile(Buffer.from(body), "application/json");
    this.made = now;
    return this.models;
  }
}

/** Whether it is shown to whoever comes: a provider of its own is on. */
const isPublic = (model: Model): boolean => model.public !== false && model.targets.length > 0;

const isPage = (path: string): boolean =>
  path === "/" || path === "/play" || path === "/models" || path.startsWith("/models/");

/** What shows the page at a path. */
function scriptOf(path: string): string {
  const name = path === "/play" ? "play" : path.startsWith("/models/") ? "model" : "catalogue";
  return `marketplace/${name}.js`;
}

function unescaped(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
