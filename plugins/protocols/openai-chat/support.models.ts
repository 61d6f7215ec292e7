/**
 * What only some servers of Chat take, by the names of their models. Translated requests go to vendors of all kinds, and many of them
 * refuse a member or a tool that they do not know, or ignore it.
 */
import { SEARCH_MODEL } from "./usage.ts";

/** The part of a request's target that decides. */
interface NamedModel {
  readonly model: string;
}

/** Reports whether a model takes tools of free text: OpenAI's do, and other vendors that serve them know only functions. [S, D] */
export const takesFreeText = ({ model }: NamedModel): boolean => /^gpt-(?:[5-9]|\d\d)/.test(model);

/**
 * Reports whether a model takes `web_search_options`: OpenAI's search models, and Perplexity's. Others refuse them [F: "Web search
 * options not supported with this model"], or do not know them.
 */
export const takesSearchOptions = ({ model }: NamedModel): boolean =>
  SEARCH_MODEL.test(model) || /(?:^|\/)sonar/.test(model);
