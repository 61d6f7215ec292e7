import type { Node, Pair, Scalar } from "yaml";
import { type Alias, type Document, isAlias, isCollection, isMap, isNode, isScalar, isSeq, visit } from "yaml";
import type { ConfigPath } from "./problems.ts";
import {
  COMMON,
  hide,
  holdsSecret,
  isKeyAsName,
  isOptionText,
  isPlain,
  isPlugins,
  isSecret,
  isWrittenSecret,
  type OptionWords,
  secretIn,
  secretsByLook,
  stars,
} from "./secrets.ts";

/** Offsets into the text: first, and behind the last. */
export type Span = readonly [from: number, to: number];

/** A YAML file as anybody may see it. */
export interface Masked {
  /** With stars for what is secret, every character at its place. */
  readonly text: string;
  /** Texts that no message may repeat. */
  readonly secrets: ReadonlySet<string>;
}

/**
 * Puts stars over every scalar at a secret's place, however it is written there, over all that looks like a secret, and
 * over the same texts elsewhere.
 */
export function mask(document: Document, text: string, words: OptionWords): Masked {
  const { secrets: nodes, readable } = scalarsOf(document, words);
  const secrets = new Set(secretsByLook(text));
  const spans: Span[] = [];
  for (const [node, option] of nodes) {
    const [from, to] = rangeOf(node) ?? [0, 0];
    const source = text.slice(from, to);
    const secret = secretIn(source);
    if (secret === "") continue;
    const start = from + source.indexOf(secret);
    spans.push([start, start + secret.length]);
    const value = String(node.value);
    // What an option and something that is shown have in common is a name, like a model's.
    for (const each of [secret, value, ...value.split("\n").map((line) => line.trim())])
      if (!option || !readable.includes(each)) secrets.add(each);
  }
  const looked = hide(text, secretsByLook(text));
  const broken = document.errors.some(({ code }) => code !== "DUPLICATE_KEY");
  const shown = broken
    ? covered(withoutOptions(looked), [...spans, ...strays(document, text)])
    : covered(looked, spans);
  return { text: hide(withoutOldOptions(shown), secrets), secrets };
}

function covered(text: string, spans: Span[]): string {
  let [shown, end] = ["", 0];
  for (const [from, to] of spans.sort(([a], [b]) => a - b)) {
    shown += text.slice(end, from) + stars(text.slice(Math.max(from, end), to));
    end = Math.max(end, to);
  }
  return shown + text.slice(end);
}

/** The places of secrets that stand in a YAML file themselves, not as references, with what is there; comments do not count. */
export function writtenSecrets(document: Document): [path: ConfigPath, node: Scalar][] {
  return [...scalarsOf(document, () => []).written].map(([node, path]) => [path, node]);
}

/** The scalars that nobody may see, each with whether that is for being a plugin's option only; and all other texts. */
interface Scalars {
  secrets: ReadonlyMap<Scalar, boolean>;
  /** Those among them that are secrets without a doubt, by one of their places. */
  written: ReadonlyMap<Scalar, ConfigPath>;
  readable: string;
}

/** Places behind aliases that are looked at, beyond those that stand in the file: more are made to be too many. */
const MOST = 100_000;
const DEEPEST = 100;

function scalarsOf(document: Document, words: OptionWords): Scalars {
  const { all, names, meant } = nodesOf(document);
  const secrets = new Map<Scalar, boolean>();
  const written = new Map<Scalar, ConfigPath>();
  const look = (node: Scalar, path: ConfigPath) => {
    const value = String(node.value);
    if (isWrittenSecret(path, value)) written.set(node, path);
    if (isSecret(path, value)) secrets.set(node, false);
    else if (isOptionText(path, value, words(path))) secrets.set(node, secrets.get(node) ?? true);
  };
  const resolved = (node: unknown): unknown => (isAlias(node) ? meant.get(node) : node);
  const nameOfKey = (pair: Pair): string => nameOf({ key: resolved(pair.key) });
  let places = 0;
  const waiting: [node: unknown, path: ConfigPath][] = [[document.contents, []]];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const path = next[1];
    const node = resolved(next[0]);
    if (++places > all.length + MOST || path.length > DEEPEST) {
      for (const each of all) if (!names.has(each)) secrets.set(each, false);
      break;
    }
    if (isScalar(node)) look(node, path);
    if (isSeq(node)) for (const [i, item] of node.items.entries()) waiting.push([item, [...path, i]]);
    if (!isMap(node)) continue;
    for (const pair of node.items) {
      const name = nameOfKey(pair);
      // `{ text }` is a name without a value, and was hardly meant; nor is one where a secret alone may stand.
      if (isCollection(pair.key) || pair.value === null || holdsSecret(path)) waiting.push([pair.key, path]);
      if (path[0] === "keys" && path.length === 1 && isKeyAsName(name, keyIn(resolved(pair.value), resolved)))
        waiting.push([pair.key, [...path, name, "key"]]);
      const merges = name === "<<" && !isScalar(resolved(pair.value));
      waiting.push([pair.value, merges ? path : [...path, name]]);
    }
  }
  const readable = all.filter((node) => !secrets.has(node)).map(({ value }) => String(value));
  return { secrets, written, readable: readable.join("\0") };
}

/** What stands as a key in an entry of `keys`, or in its place; undefined: nothing. */
function keyIn(entry: unknown, resolved: (node: unknown) => unknown): string | undefined {
  if (isScalar(entry)) return entry.value === null ? undefined : String(entry.value);
  if (!isMap(entry)) return undefined;
  const pair = entry.items.find((each) => /^(?:key|hash|<<)$/.test(nameOf({ key: resolved(each.key) })));
  if (!pair) return undefined;
  const value = resolved(pair.value);
  // What is merged, and the digest of a key, are none of somebody's mistakes with names.
  return isScalar(value) && nameOf(pair) === "key" ? String(value.value) : "$OTHER";
}

/** All scalars, those among them that are names, and what aliases stand for. */
function nodesOf(document: Document): { all: Scalar[]; names: Set<Scalar>; meant: Map<Alias, Node> } {
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

/** Words between scalars; comments, anchors and aliases among them. */
const BETWEEN = /(?:^|(?<=\s))#[^\n]*|[&*][\w-]+|[^\s{}[\],:"'#]*\w[^\s{}[\],:"'#]*/g;
/** Words of what became a name by mistake. */
const LONG_WORD = /\S{12,}/g;

/** What a file whose syntax is broken has outside of all scalars, or in a name of several words. */
function strays(document: Document, text: string): Span[] {
  const { all, names, meant } = nodesOf(document);
  const inside = [...all, ...meant.keys()].flatMap((node) => rangeOf(node) ?? []);
  const bounds = [0, ...inside.sort((a, b) => a - b), text.length];
  const found = (from: number, to: number, words: RegExp): Span[] =>
    [...text.slice(from, to).matchAll(words)]
      .filter(([word]) => !/^[#&*]/.test(word))
      .map(({ 0: word, index }) => [from + index, from + index + word.length]);
  const between = bounds.flatMap((from, i) => (i % 2 === 0 ? found(from, bounds[i + 1] ?? from, BETWEEN) : []));
  const spoilt = [...names].filter(({ value }) => /\s/.test(String(value)));
  return [...between, ...spoilt.flatMap((name) => found(...(rangeOf(name) ?? [0, 0]), LONG_WORD))];
}

/** The beginning of a line, up to the value: dashes, and a name with its colon. */
const HEAD = /^[ \t]*(?:-[ \t]+)*(?:["']?([\w.$/-]+)["']?[ \t]*:(?=\s|$))?/;

/** The beginning of a comment that is a line of its own or behind a value, and what it says. */
const COMMENT = /^(.*?(?:^|\s)#+[ \t]*)(.*)$/s;
/** What is a value that was commented out, and no words about it. */
const OLD_VALUE = /^\s*(?:["'[{].*|\S+)\s*$/;

/** Where the syntax is broken, values may be at other places than was meant: the options of plugins are known by their lines. */
const withoutOptions = (text: string): string =>
  amongPlugins(text, (line) => (/^\s*#/.test(line) ? line : withoutValue(line)));

/** Options of plugins that stand in a comment. */
const withoutOldOptions = (text: string): string =>
  amongPlugins(text, (line) => {
    const [, before = "", words = ""] = COMMENT.exec(line) ?? [];
    const [head = ""] = HEAD.exec(words) ?? [];
    return head !== "" && OLD_VALUE.test(words.slice(head.length)) ? before + withoutValue(words) : line;
  });

/** A text with other lines among those of plugins. */
function amongPlugins(text: string, change: (line: string) => string): string {
  let inside = false;
  const lines = text.split("\n").map((line) => {
    const section = /^["']?([\w-]+)["']?[ \t]*:/.exec(line)?.[1];
    if (section !== undefined) inside = isPlugins(section);
    return inside ? change(line) : line;
  });
  return lines.join("\n");
}

/** A line with stars for the value in it. */
function withoutValue(line: string): string {
  const [head, name = ""] = HEAD.exec(line) ?? [""];
  const rest = line.slice(head.length);
  const readable = isPlain(rest.trim().replaceAll(/^["']|["']$/g, "")) || (COMMON.has(name) && !/[{,]/.test(rest));
  return head + (readable ? rest : rest.replaceAll(/[^\s{}[\],:"']+/g, stars));
}

/** The name of a pair; the library reads a merging `<<` as a symbol. */
export function nameOf(pair: Pick<Pair, "key">): string {
  const name = isScalar(pair.key) ? pair.key.value : pair.key;
  return typeof name === "symbol" ? (name.description ?? "") : String(name);
}

/** Where a node stands. */
export function rangeOf(node: unknown): Span | undefined {
  const range = isNode(node) ? node.range : undefined;
  return range ? [range[0], range[1]] : undefined;
}
