import t from "tap";
import { HeaderList } from "../../src/wire/headers.ts";
import { dropInvalidTrace, isTracestate, parseTraceparent, readTraceContext } from "../../src/wire/trace-context.ts";

const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN = "00f067aa0ba902b7";
const PARENT = `00-${TRACE}-${SPAN}-01`;

t.test("a traceparent is parsed, those of later versions too", async (t) => {
  t.same(parseTraceparent(PARENT), { traceId: TRACE, parentId: SPAN, sampled: true });
  t.equal(parseTraceparent(`00-${TRACE}-${SPAN}-00`)?.sampled, false);
  t.equal(parseTraceparent(`cc-${TRACE}-${SPAN}-03-what-is-new`)?.sampled, true);
});

t.test("an invalid one is not", async (t) => {
  for (const text of [
    "",
    PARENT.toUpperCase(),
    `ff-${TRACE}-${SPAN}-01`,
    `00-${TRACE}-${SPAN}-01-more`,
    `00-${"0".repeat(32)}-${SPAN}-01`,
    `00-${TRACE}-${"0".repeat(16)}-01`,
    `00-${TRACE}-${SPAN}`,
    `00-${TRACE}-${SPAN}-0`,
    ` ${PARENT}`,
    `${PARENT}\n`,
    `cc-${TRACE}-${SPAN}-01.more`,
  ])
    t.equal(parseTraceparent(text), undefined, text);
});

t.test("a tracestate is a list of up to 32 members and 512 characters", async (t) => {
  for (const text of ["rojo=00f067aa0ba902b7", "a=1,b@tenant=2 ,, c=x:y;z", ""]) t.ok(isTracestate(text), text);
  const many = Array.from({ length: 33 }, (_, i) => `k${i}=v`).join(",");
  for (const text of ["no list", "A=1", "a=b=c", "a=", many, `a=${"x".repeat(600)}`, "a=\u00e9"])
    t.notOk(isTracestate(text), text);
});

t.test("invalid ones are removed, and a tracestate is removed with its traceparent", async (t) => {
  const kept = (...lines: string[]) => {
    const headers = new HeaderList([...lines]);
    dropInvalidTrace(headers);
    return headers.lines;
  };
  t.same(kept("Traceparent", PARENT, "tracestate", "a=1"), ["Traceparent", PARENT, "tracestate", "a=1"]);
  t.same(kept("traceparent", PARENT, "tracestate", "a=1", "Tracestate", "b=2").length, 6);
  t.same(kept("traceparent", PARENT, "tracestate", "no list"), ["traceparent", PARENT]);
  t.same(kept("traceparent", "00-x", "tracestate", "a=1", "accept", "*/*"), ["accept", "*/*"]);
  t.same(kept("traceparent", PARENT, "traceparent", PARENT), []);
  t.same(kept("tracestate", "a=1"), []);
  t.same(kept("traceparent", `cc-${TRACE}-${SPAN}-03-anything`), ["traceparent", PARENT], "without what is unknown");
  t.equal(readTraceContext(new HeaderList(["traceparent", PARENT]))?.traceId, TRACE);
  t.equal(readTraceContext(new HeaderList(["traceparent", PARENT, "Traceparent", PARENT])), undefined);
});
