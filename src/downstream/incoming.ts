import { IncomingMessage } from "node:http";
import { HeaderList } from "../wire/headers.ts";

/** The headers that node's server or somebody of ours looks at in `headers`. */
interface Few {
  host: string | undefined;
  te: string | undefined;
  expect: string | undefined;
  "content-type": string | undefined;
  "content-encoding": string | undefined;
  "content-length": string | undefined;
}

/**
 * A request as node's server hands it over, its header lines read once. node's own `headers` takes all lines apart into an
 * object, for each request, to look at two of them; here it holds only those that anybody looks at.
 */
export class Incoming extends IncomingMessage {
  private list: HeaderList | undefined;
  private few: Few | undefined;

  /** Every line. The list is shared: what is taken out of it is gone for all. */
  get lines(): HeaderList {
    this.list ??= new HeaderList(this.rawHeaders);
    return this.list;
  }

  static {
    Object.defineProperty(Incoming.prototype, "headers", {
      get(this: Incoming): Few {
        this.few ??= fewOf(this.lines);
        return this.few;
      },
    });
  }
}

const fewOf = (lines: HeaderList): Few => ({
  host: lines.get("host"),
  te: lines.get("te"),
  expect: lines.get("expect"),
  "content-type": lines.get("content-type"),
  "content-encoding": lines.get("content-encoding"),
  "content-length": lines.get("content-length"),
});
