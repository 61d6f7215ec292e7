import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** The request bodies: a short question, an agent's turn with tools, a question about an image. */
export type BodyName = "1k" | "30k" | "1m5" | "1k-sse" | "30k-sse";

const VOCABULARY =
  "the of function return const error file value request response stream token model proxy agent tool result path import export async await class number string object array index header buffer socket server client upstream timeout retry route plugin config schema parse build test".split(
    " ",
  );

/** Returns a random number generator with the same sequence in every run, so that every run sends the same bytes. */
function numbers(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state * 1103515245 + 12345) & 0x7fffffff;
    return state % below;
  };
}

/** About n characters of prose with the quotes, backslashes and line ends that make JSON strings interesting. */
function prose(next: (below: number) => number, n: number): string {
  let text = "";
  while (text.length < n) {
    text += VOCABULARY[next(VOCABULARY.length)] + (next(12) === 0 ? "\n" : " ");
    if (next(40) === 0) text += '"q\\uoted" \t{x: [1,2]} ';
  }
  return text.slice(0, n);
}

function question(next: (below: number) => number) {
  return {
    model: "MODEL",
    messages: [
      { role: "system", content: prose(next, 400) },
      { role: "user", content: prose(next, 430) },
    ],
    temperature: 0.7,
    max_tokens: 512,
  };
}

function tool(next: (below: number) => number, index: number) {
  const described = (type: string, n: number) => ({ type, description: prose(next, n) });
  const properties = {
    path: described("string", 80),
    limit: described("integer", 40),
    flags: { type: "array", items: { type: "string", enum: ["a", "b", "c"] } },
  };
  const parameters = { type: "object", properties, required: ["path"], additionalProperties: false };
  return { type: "function", function: { name: `tool_${index}`, description: prose(next, 300), parameters } };
}

function agentTurn(next: (below: number) => number) {
  const messages: object[] = [{ role: "system", content: prose(next, 6000) }];
  for (let i = 0; i < 8; i++) {
    const path = `/src/${prose(next, 20).replace(/\W/g, "_")}`;
    const call = { name: `tool_${next(10)}`, arguments: JSON.stringify({ path, limit: next(500) }) };
    messages.push(
      { role: "user", content: prose(next, 500) },
      { role: "assistant", content: null, tool_calls: [{ id: `call_${i}`, type: "function", function: call }] },
      { role: "tool", tool_call_id: `call_${i}`, content: prose(next, 1050) },
    );
  }
  const tools = Array.from({ length: 10 }, (_, i) => tool(next, i));
  return { model: "MODEL", messages, tools, tool_choice: "auto", temperature: 0.2, max_tokens: 4096 };
}

function imageQuestion(next: (below: number) => number) {
  const pixels = Buffer.alloc(1_125_000);
  let state = 88172645;
  for (let i = 0; i < pixels.length; i++) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    pixels[i] = state & 255;
  }
  pixels.write("\x89PNG\r\n\x1a\n", "latin1");
  const url = `data:image/png;base64,${pixels.toString("base64")}`;
  const content = [
    { type: "text", text: prose(next, 300) },
    { type: "image_url", image_url: { url } },
  ];
  return { model: "MODEL", messages: [{ role: "user", content }], max_tokens: 512 };
}

function streamed({ model, ...rest }: { model: string }): object {
  return { model, stream: true, stream_options: { include_usage: true }, ...rest };
}

/** Writes the bodies as `folder/NAME.json`; the model is the placeholder "MODEL". */
export function writeBodies(folder: string): void {
  const next = numbers(42);
  const short = question(next);
  const long = agentTurn(next);
  const bodies: Record<BodyName, object> = {
    "1k": short,
    "30k": long,
    "1m5": imageQuestion(next),
    "1k-sse": streamed(short),
    "30k-sse": streamed(long),
  };
  mkdirSync(folder, { recursive: true });
  for (const [name, body] of Object.entries(bodies)) writeFileSync(join(folder, `${name}.json`), JSON.stringify(body));
}
