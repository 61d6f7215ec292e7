import t from "tap";
import { Body } from "../../src/core/body.ts";
import type { Protocol, TextKind } from "../../src/core/protocol.ts";
import { mapTextEdits, requestTexts } from "../../src/core/texts.ts";
import { loadProtocols } from "../../src/loader/discover.ts";
import { tried } from "../support/sample.ts";
import { requests } from "./request-matrix.ts";

const KINDS: readonly TextKind[] = ["system", "user", "assistant", "reasoning", "tool_call", "tool_result"];
const protocols = new Map((await loadProtocols()).map((protocol) => [protocol.name, protocol]));
const skip = !requests() && "recordings are absent";

t.test("every text of every recorded request can be replaced, and nothing else changes", { skip }, async (t) => {
  const wrong: string[] = [];
  let changed = 0;
  for (const { id, protocol: name, text } of requests() ?? []) {
    const protocol = protocols.get(name) as Protocol;
    const body = new Body([Buffer.from(text)], "json");
    const same = mapTextEdits(body, protocol, KINDS, (text) => text);
    if (same.length > 0) wrong.push(`${id}: ${same.length} edits of nothing`);
    const before = requestTexts(body, protocol);
    const after = body.edited(mapTextEdits(body, protocol, KINDS, (text) => (text === "" ? "" : `${text}"é\n`)));
    const expected = before.map(({ kind, text }) => ({ kind, text: `${text}"é\n` }));
    if (JSON.stringify(requestTexts(after, protocol)) !== JSON.stringify(expected)) wrong.push(`${id}: other texts`);
    // Taking what was put in out again gives the same request.
    const back = after.edited(mapTextEdits(after, protocol, KINDS, (text) => text.replace(/"é\n$/, "")));
    if (JSON.stringify(back.json()) !== JSON.stringify(body.json())) wrong.push(`${id}: something else has changed`);
    changed += before.length;
  }
  t.same(wrong.slice(0, 10), [], `${wrong.length} of ${changed}`);
  t.ok(changed > tried(1000), `${changed} texts`);
});

t.test("each member that leads to a recorded text is one that is refused in other letters", { skip }, async (t) => {
  const wrong = new Set<string>();
  for (const { protocol: name, text } of requests() ?? []) {
    const { texts } = protocols.get(name) as Protocol;
    const { containers = [], members = [] } = texts.names ?? {};
    for (const { path } of texts.request(JSON.parse(text))) {
      const names = path.filter((each) => typeof each === "string");
      const end = names.findIndex((each) => members.includes(each));
      // Below a text's member is data of the client's own.
      for (const each of names.slice(0, end === -1 ? undefined : end))
        if (!containers.includes(each)) wrong.add(`${name}: ${path.join(".")}`);
    }
  }
  t.same([...wrong].slice(0, 10), []);
});
