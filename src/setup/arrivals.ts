import { unreachableReason } from "./listing.ts";

/** When the pieces of a streamed response arrived, in milliseconds from the request. */
interface ChunkArrivals {
  /** The first piece of text. */
  first: number;
  last: number;
  pieces: number;
}

/** Timeout in milliseconds, for a response that takes three seconds. */
const TIMEOUT = 60_000;
/** Milliseconds between the first and last piece of text below which a stream of a second was buffered on its way. */
const AT_ONCE = 100;
/** Shortest duration in milliseconds of a response that allows a verdict: a shorter one may have been generated at once. */
const LONG_ENOUGH = 1000;

/** Requests a streamed response from a gateway, like a client. Never throws. @param url without the version segment */
export async function measureArrivals(
  url: string,
  key: string,
  model: string,
): Promise<ChunkArrivals | { problem: string }> {
  const began = performance.now();
  try {
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({
        model,
        stream: true,
        messages: [{ role: "user", content: "one two three four five six" }],
      }),
      signal: AbortSignal.timeout(TIMEOUT),
      redirect: "manual",
    });
    if (response.status !== 200 || !response.body)
      return { problem: `it answers ${response.status}: ${(await response.text()).slice(0, 200)}` };
    if (!response.headers.get("content-type")?.startsWith("text/event-stream"))
      return { problem: `its response is not a stream, but ${response.headers.get("content-type")}` };
    const times: number[] = [];
    const decoder = new TextDecoder();
    for await (const piece of response.body)
      if (/"content":"[^"]/.test(decoder.decode(piece, { stream: true }))) times.push(performance.now() - began);
    const [first] = times;
    const last = times.at(-1);
    if (first === undefined || last === undefined) return { problem: "the stream contained no text" };
    return { first, last, pieces: times.length };
  } catch (thrown) {
    return { problem: unreachableReason(thrown, TIMEOUT) };
  }
}

/** Reports whether a stream was buffered on its way; undefined: it was too short to tell. */
export function isBuffered({ first, last }: ChunkArrivals): boolean | undefined {
  if (last - first >= AT_ONCE) return false;
  return last >= LONG_ENOUGH ? true : undefined;
}
