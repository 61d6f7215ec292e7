import type { Node, Pair, Scalar } from "yaml";
import { type Alias, type Document, isAlias, isCollection, isMap, isNode, isScalar, isSeq, visit } from "yaml";
import type { ConfigPath } from "./problems.ts";
import {
  COMMON_OPTIONS,
  type EnumeratedValues,
  findSecrets,
  isKeyAsName,
  isLiteralSecret,
  isNonSecret,
  isOptionText,
  isPluginsSection,
  isSecret,
  isSecretPath,
  literalSecret,
  starSecrets,
  toStars,
} from "./secrets.ts";

/** Offsets in the text: start and exclusive end. */
export type Span = readonly [from: number, to: number];

/** A YAML file without its secrets. */
export interface MaskedText {
  /** The text with stars for secrets, every character at its position. */
  readonly text: string;
  /** Texts that no message may repeat. */
  readonly secrets: ReadonlySet<string>;
}

/**
 * Replaces by stars every scalar at a secret's path, however it is written there, everything that looks like a secret, and
 * further occurrences of the same texts.
 */
export function mask(document: Document, text: string, enumeratedAt: EnumeratedValues): MaskedText {
  const { secrets: nodes, readable } = classifyScalars(document, enumeratedAt);
  const looking = findSecrets(text);
  const secrets = new Set(looking);
  const spans: Span[] = [];
  for (const [node, option] of nodes) {
    const [from, to] = nodeSpan(node) ?? [0, 0];
    const source = text.slice(from, to);
    const secret = literalSecret(source);
    if (secret === "") continue;
    const start = from + source.indexOf(secret);
    spans.push([start, start + secret.length]);
    const value = String(node.value);
    // An option's text that also occurs in a visible value is a name, like a model's.
    for (const each of [secret, value, ...value.split("\n").map((line) => line.trim())])
      if (!option || !readable.includes(each)) secrets.add(each);
  }
  const maskedText = starSecrets(text, looking);
  const broken = document.errors.some(({ code }) => code !== "DUPLICATE_KEY");
  const shown = broken
    ? starSpans(starOptions(maskedText), [...spans, ...wordsOutsideScalars(document, text)])
    : starSpans(maskedText, spans);
  return { text: starSecrets(starCommentedOptions(shown), secrets), secrets };
}

function starSpans(text: string, spans: Span[]): string {
  let [shown, end] = ["", 0];
  for (const [from, to] of spans.sort(([a], [b]) => a - b)) {
    shown += text.slice(end, from) + toStars(text.slice(Math.max(from, end), to));
    end = Math.max(end, to);
  }
  return shown + text.slice(end);
}

/** Returns the paths of literal secrets in a YAML file, with their nodes; references and comments do not count. */
export function literalSecretNodes(document: Document): [path: ConfigPath, node: Scalar][] {
  return [...classifyScalars(document, () => []).written].map(([node, path]) => [path, node]);
}

/** The scalars that must be hidden, each with whether only as a plugin's option; and all other texts. */
interface Scalars {
  secrets: ReadonlyMap<Scalar, boolean>;
  /** Those that certainly are secrets, with one of their paths. */
  written: ReadonlyMap<Scalar, ConfigPath>;
  readable: string;
}

/** Maximum number of places behind aliases that are visited, in addition to those in the file: only an attack has more. */
const MAX_ALIAS_VISITS = 100_000;
const MAX_PATH_DEPTH = 100;

function classifyScalars(document: Document, enumeratedAt: EnumeratedValues): Scalars {
  const { all, names, meant } = collectNodes(document);
  const secrets = new Map<Scalar, boolean>();
  const written = new Map<Scalar, ConfigPath>();
  const classify = (node: Scalar, path: ConfigPath) => {
    const value = String(node.value);
    if (isLiteralSecret(path, value)) written.set(node, path);
    if (isSecret(path, value)) secrets.set(node, false);
    else if (isOptionText(path, value, enumeratedAt(path))) secrets.set(node, secrets.get(node) ?? true);
  };
  const resolved = (node: unknown): unknown => (isAlias(node) ? meant.get(node) : node);
  const nameOfKey = (pair: Pair): string => pairName({ key: resolved(pair.key) });
  let places = 0;
  const waiting: [node: unknown, path: ConfigPath][] = [[document.contents, []]];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const path = next[1];
    const node = resolved(next[0]);
    if (++places > all.length + MAX_ALIAS_VISITS || path.length > MAX_PATH_DEPTH) {
      for (const each of all) if (!names.has(each)) secrets.set(each, false);
      break;
    }
    if (isScalar(node)) classify(node, path);
    if (isSeq(node)) for (const [i, item] of node.items.entries()) waiting.push([item, [...path, i]]);
    if (!isMap(node)) continue;
    for (const pair of node.items) {
      const name = nameOfKey(pair);
      // `{ text }` is a name without a value, probably by mistake; the same holds for a name where only a secret may be.
      if (isCollection(pair.key) || pair.value === null || isSecretPath(path)) waiting.push([pair.key, path]);
      if (path[0] === "keys" && path.length === 1 && isKeyAsName(name, keyText(resolved(pair.value), resolved)))
        waiting.push([pair.key, [...path, name, "key"]]);
      const merges = name === "<<" && !isScalar(resolved(pair.value));
      waiting.push([pair.value, merges ? path : [...path, name]]);
    }
  }
  const readable = all.filter((node) => !secrets.has(node)).map(({ value }) => String(value));
  return { secrets, written, readable: readable.join("\0") };
}

/** Returns the text found as a key in an entry of `keys`, or in its place; undefined: none. */
function keyText(entry: unknown, resolved: (node: unknown) => unknown): string | undefined {
  if (isScalar(entry)) return entry.value === null ? undefined : String(entry.value);
  if (!isMap(entry)) return undefined;
  const pair = entry.items.find((each) => /^(?:key|hash|<<)$/.test(pairName({ key: resolved(each.key) })));
  if (!pair) return undefined;
  const value = resolved(pair.value);
  // A merged map and a key's hash are not misplaced names.
  return isScalar(value) && pairName(pair) === "key" ? String(value.value) : "$OTHER";
}

/** Returns all scalars, those of them that are names, and the targets of aliases. */
function collectNodes(document: Document): { all: Scalar[]; names: Set<Scalar>; meant: Map<Alias, Node> } {
  const all: Scalar[] = [];
  const names = new Set<Scalar>();
  const meant = new Map<Alias, Node>();
  const anchors = new Map<string, Node>();
  visit(document, {
    Node: (key, node) => {
      if (isAlias(node)) {
        const target = anchors.get(node.source);
        if (target) meant.set(node, target);
        return;
      }
      if (isNode(node) && "anchor" in node && node.anchor) anchors.set(node.anchor, node);
      if (isScalar(node)) all.push(node);
      if (isScalar(node) && key === "key") names.add(node);
    },
  });
  return { all, names, meant };
}

/** Matches words between scalars, including comments, anchors and aliases. */
const BETWEEN = /(?:^|(?<=\s))#[^\n]*|[&*][\w-]+|[^\s{}[\],:"'#]*\w[^\s{}[\],:"'#]*/g;
/** Words of texts that became a name by mistake. */
const LONG_WORD = /\S{12,}/g;

/** Returns words outside of all scalars in a file with a syntax error, and those in names of several words. */
function wordsOutsideScalars(document: Document, text: string): Span[] {
  const { all, names, meant } = collectNodes(document);
  const inside = [...all, ...meant.keys()].flatMap((node) => nodeSpan(node) ?? []);
  const bounds = [0, ...inside.sort((a, b) => a - b), text.length];
  const found = (from: number, to: number, words: RegExp): Span[] =>
    [...text.slice(from, to).matchAll(words)]
      .filter(([word]) => !/^[#&*]/.test(word))
      .map(({ 0: word, index }) => [from + index, from + index + word.length]);
  const between = bounds.flatMap((from, i) => (i % 2 === 0 ? found(from, bounds[i + 1] ?? from, BETWEEN) : []));
  const multiWordNames = [...names].filter(({ value }) => /\s/.test(String(value)));
  return [...between, ...multiWordNames.flatMap((name) => found(...(nodeSpan(name) ?? [0, 0]), LONG_WORD))];
}

/** The start of a line up to the value: dashes, and a name with its colon. */
const HEAD = /^[ \t]*(?:-[ \t]+)*(?:["']?([\w.$/-]+)["']?[ \t]*:(?=\s|$))?/;

/** The start of a comment on its own line or after a value, and its content. */
const COMMENT = /^(.*?(?:^|\s)#+[ \t]*)(.*)$/s;
/** A commented-out value, as opposed to prose. */
const COMMENTED_VALUE = /^\s*(?:["'[{].*|\S+)\s*$/;

/** With a syntax error, values may be at unintended paths: plugin options are then recognized by their lines. */
const starOptions = (text: string): string =>
  mapPluginLines(text, (line) => (/^\s*#/.test(line) ? line : starValue(line)));

const starCommentedOptions = (text: string): string =>
  mapPluginLines(text, (line) => {
    const [, before = "", words = ""] = COMMENT.exec(line) ?? [];
    const [head = ""] = HEAD.exec(words) ?? [];
    return head !== "" && COMMENTED_VALUE.test(words.slice(head.length)) ? before + starValue(words) : line;
  });

/** Applies a function to the lines of plugin sections. */
function mapPluginLines(text: string, change: (line: string) => string): string {
  let inside = false;
  const lines = text.split("\n").map((line) => {
    const section = /^["']?([\w-]+)["']?[ \t]*:/.exec(line)?.[1];
    if (section !== undefined) inside = isPluginsSection(section);
    return inside ? change(line) : line;
  });
  return lines.join("\n");
}

function starValue(line: string): string {
  const [head, name = ""] = HEAD.exec(line) ?? [""];
  const rest = line.slice(head.length);
  const readable =
    isNonSecret(rest.trim().replaceAll(/^["']|["']$/g, "")) || (COMMON_OPTIONS.has(name) && !/[{,]/.test(rest));
  return head + (readable ? rest : rest.replaceAll(/[^\s{}[\],:"']+/g, toStars));
}

/** Returns the name of a pair; the library parses a merging `<<` as a symbol. */
export function pairName(pair: Pick<Pair, "key">): string {
  const name = isScalar(pair.key) ? pair.key.value : pair.key;
  return typeof name === "symbol" ? (name.description ?? "") : String(name);
}

export function nodeSpan(node: unknown): Span | undefined {
  const range = isNode(node) ? node.range : undefined;
  return range ? [range[0], range[1]] : undefined;
}
