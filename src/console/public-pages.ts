import type { ServerResponse } from "node:http";
import type { Marketplace, Model } from "../core/marketplace.ts";
import type { Protocol } from "../core/protocol.ts";
import type { ServerRequest } from "../downstream/server-request.ts";
import type { Client } from "../loader/clients.ts";
import type { Health } from "../upstream/health.ts";
import { decodeOrKeep } from "../wire/query.ts";
import { modelCard, type ProtocolCard, protocolCards } from "./model-card.ts";
import { PageFile, type PageFiles } from "./page-files.ts";

/** The data of the marketplace's pages. */
const MODELS_PATH = "/pages/models.json";
/** Milliseconds for which a response with that data is reused. */
const MAX_AGE = 1000;

/** What the marketplace's pages show, besides the files. */
interface PublicFacts {
  readonly marketplace: Marketplace;
  readonly health: Health;
  readonly protocols: readonly Protocol[];
  /** The first path on which each protocol is served. */
  readonly paths: ReadonlyMap<string, string>;
  /** Paths that a plugin serves. */
  readonly serves: readonly string[];
  /** Returns the clients with snippets; called for the first reader, as reading their files takes long. @throws PluginError */
  readonly clients: () => readonly Client[];
}

/**
 * The pages of the public side: the marketplace, a page for each model, the playground. They show only models that gateway.yaml
 * makes public, and nothing about users; what a key may use, they query from the API with that key.
 */
export class PublicPages {
  private readonly protocolCards: readonly ProtocolCard[];
  private models: PageFile | undefined;
  private builtAt = Number.NEGATIVE_INFINITY;

  constructor(
    private readonly files: PageFiles,
    private readonly facts: PublicFacts,
  ) {
    this.protocolCards = protocolCards(facts.protocols, facts.paths);
  }

  /**
   * Responds to a GET or HEAD for a page.
   * @param path the original path, without the query
   * @param id of the request
   * @returns false where the path is no page
   */
  serve(path: string, request: ServerRequest, response: ServerResponse, id: string): boolean {
    const more = ["x-request-id", id];
    const file = path === MODELS_PATH ? this.modelsFile() : this.files.find(path);
    if (file) void file.send(request, response, { more });
    else if (isPage(path) && request.headerList.get("accept")?.includes("text/html"))
      void this.files
        .page("marketplace", pageScript(path))
        .send(request, response, { more, status: this.hasModelOf(path) ? 200 : 404 });
    else return false;
    return true;
  }

  /** Returns false for the page of an unknown model. */
  private hasModelOf(path: string): boolean {
    const id = /^\/models\/(.+)$/.exec(path)?.[1];
    const model = id === undefined ? undefined : this.facts.marketplace.find(decodeOrKeep(id));
    return id === undefined || (model !== undefined && isPublic(model));
  }

  private modelsFile(): PageFile {
    const now = Date.now();
    if (this.models && now - this.builtAt < MAX_AGE) return this.models;
    const { marketplace, health, protocols, clients, serves } = this.facts;
    const served = this.protocolCards.map(({ name }) => name);
    const shown = marketplace.models.filter(isPublic);
    const isListed = (name: string) => shown.some(({ id }) => id === marketplace.find(name)?.id);
    const models = shown.map((model) => ({
      ...modelCard(model, served, { marketplace, health, protocols, now }),
      fallback: model.fallback.filter(isListed),
    }));
    const body = JSON.stringify({ models, protocols: this.protocolCards, serves, clients: clients() });
    this.models = new PageFile(Buffer.from(body), "application/json");
    this.builtAt = now;
    return this.models;
  }
}

/** Reports whether a model is shown without a key: it is public, and one of its providers is on. */
const isPublic = (model: Model): boolean => model.public !== false && model.targets.length > 0;

const isPage = (path: string): boolean =>
  path === "/" || path === "/play" || path === "/models" || path.startsWith("/models/");

function pageScript(path: string): string {
  const name = path === "/play" ? "play" : path.startsWith("/models/") ? "model" : "catalogue";
  return `marketplace/${name}.js`;
}
