import { GatewayError, type Located, type Operation, post } from "model-gateway/protocol";

/** An action on a model: `/models/{model}:{action}`. A vendor's model name may hold slashes, which stay. */
const action = (name: string, more: Partial<Operation> = {}): Operation => ({
  ...post(name, "", { streams: false, ...more }),
  upstream: (model) => `/models/${model.split("/").map(encodeURIComponent).join("/")}:${name}`,
});

const STREAM = action("streamGenerateContent", { streams: true, task: "generate" });
/** The same action without `?alt=sse`: its answer is one JSON array that arrives in pieces. */
const STREAM_ARRAY: Operation = { ...STREAM, name: "streamGenerateContentArray", framing: "array" };

/** What a translated request asks for. */
export const OPERATIONS = {
  generateContent: action("generateContent", { task: "generate" }),
  /** With the query `alt=sse`. */
  streamGenerateContent: STREAM,
  countTokens: action("countTokens", { generates: false, task: "count" }),
};

const ACTIONS: ReadonlyMap<string, Operation> = new Map([
  ...Object.entries(OPERATIONS),
  ["embedContent", action("embedContent")],
  ["batchEmbedContents", action("batchEmbedContents")],
]);

/** Everything that could make another path of it, or a second reading of it. */
const UNSAFE = /[\p{Cc}%#?\\]/u;
/** How the vendor names actions; `qwen:7b` is a name with a colon in it and asks for no action. */
const ACTION_LIKE = /^[a-z]+(?:[A-Z][a-z]+)+$/;

/** The actions of a model path, for clients that are recognised by it. */
export const ACTION_PATH = new RegExp(`(?::|%3a)(?:${[...ACTIONS.keys()].join("|")})$`, "i");

/**
 * Reads `{model}:{action}` behind the path it is mounted on, decoding escapes once.
 * @throws GatewayError `bad_target` for a name that cannot be one, `path_not_found` for an action that is not served.
 */
export function locate(mount: string, rest: string, query: { get(name: string): string | null }): Located | undefined {
  const text = decode(rest);
  if (UNSAFE.test(text)) refuse("it holds a control character or one of % # ? \\");
  const colon = text.lastIndexOf(":");
  const name = colon < 0 ? text : text.slice(0, colon);
  if (name.split("/").some((segment) => segment === "" || segment === "." || segment === ".."))
    refuse("it holds an empty or a dot segment");
  if (colon < 0) return undefined;
  const operation = operationOf(text.slice(colon + 1), query);
  const model = operation && modelOf(mount, name);
  if (model?.includes(":")) refuse("it holds a colon besides the one before the action");
  return model === undefined ? undefined : { operation: operation as Operation, model };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return refuse("it holds a broken escape");
  }
}

function refuse(why: string): never {
  throw new GatewayError("bad_target", {
    message: `The model name in the path cannot be read: ${why}.`,
    hint: "Use /v1beta/models/{model}:generateContent with a name that GET /v1/models lists.",
  });
}

function operationOf(name: string, query: { get(name: string): string | null }): Operation | undefined {
  const operation = ACTIONS.get(name);
  if (operation === STREAM) return query.get("alt") === "sse" ? STREAM : STREAM_ARRAY;
  if (operation || !ACTION_LIKE.test(name)) return operation;
  throw new GatewayError("path_not_found", {
    message: `The action ${name} is not served.`,
    hint: `Served are: ${[...ACTIONS.keys()].join(", ")}.`,
  });
}

/** The model behind `/models/`; on Vertex paths other publishers' models bear the publisher's name, like `anthropic/x`. */
function modelOf(mount: string, name: string): string | undefined {
  if (mount.endsWith("/models/*")) return name;
  const path = mount.endsWith("/projects/*") ? name.replace(/^[^/]+\/locations\/[^/]+\/publishers\//, "") : name;
  const [, publisher, model] = /^([^/]+)\/models\/(.+)$/.exec(path) ?? [];
  return publisher === "google" ? model : model && `${publisher}/${model}`;
}
