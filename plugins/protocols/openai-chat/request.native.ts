import type { EncodeContext, JsonObject, ToolNameMap } from "model-gateway/protocol";
import { invalidField } from "model-gateway/protocol";

/** Which of several forms a message had, and what it said besides; only filled for encoding in this protocol. */
export interface MessageNative {
  role: string;
  /** Content was a list; else a string. */
  list?: boolean;
  /** The id of the call that a result answers, where the client's is not the vocabulary's. */
  call?: string;
  /** The plain field that repeats the text of `reasoning_details`. */
  plain?: "reasoning" | "reasoning_content";
  rest: JsonObject;
}

/** What a part, a call or a tool said besides what the vocabulary carries. */
export interface PieceNative {
  rest: JsonObject;
  /** What the object nested in it said besides, like `image_url`. */
  inner?: JsonObject;
  /** The field or form it came in, where there are several. */
  form?: string;
  /** Of a call: the members that there were, and those of the object nested in it. */
  names?: readonly string[];
  /** Of a call: what its `extra_content` says besides the state. */
  extra?: JsonObject;
  /** All of a `data:` URL before its bytes. */
  head?: string;
  /** Lengths of the pieces that a text came in. */
  cuts?: readonly number[];
}

/** Which of several forms the body's members had. */
export interface BodyNative {
  rest: JsonObject;
  /** By member: the name or form it came in. */
  forms: Readonly<Record<string, unknown>>;
}

/** Names that stay as they are. */
const AS_IS: ToolNameMap = {
  fit: (name) => name,
  back: (name) => name,
  mark: () => {},
  original: (name) => ({ name }),
};
const nothing = () => {};
/** Terms of a request that is written for the protocol it was read from. */
export const SAME: EncodeContext = {
  client: "openai-chat",
  model: "",
  facts: {},
  names: AS_IS,
  drop: nothing,
  change: nothing,
  refuse: (path, why) => {
    throw invalidField(path, why);
  },
};
