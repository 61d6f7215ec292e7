import t from "tap";
import { type Arrival, Exchange } from "../../src/core/exchange.ts";

const exchange = (): Exchange => new Exchange({ id: "one", clock: performance.now() } as Arrival);

t.test("those who wait hear that the client has left, in the order they asked, once", async (t) => {
  const one = exchange();
  const heard: string[] = [];
  one.onAbort(() => heard.push("first"));
  one.onAbort(() => heard.push("second"));
  t.same([one.aborted, heard], [false, []]);
  one.abort();
  one.abort();
  t.same([one.aborted, heard], [true, ["first", "second"]]);
});

t.test("who takes back the wish hears nothing, and the others still do", async (t) => {
  const one = exchange();
  const heard: string[] = [];
  const back = one.onAbort(() => heard.push("taken back"));
  one.onAbort(() => heard.push("kept"));
  back();
  back();
  one.abort();
  back();
  t.same(heard, ["kept"]);
});

t.test("the same function given twice is taken back once for each", async (t) => {
  const one = exchange();
  let heard = 0;
  const leave = () => void heard++;
  const back = one.onAbort(leave);
  one.onAbort(leave);
  back();
  one.abort();
  t.equal(heard, 1);
});

t.test("who asks after the client has left hears it at once", async (t) => {
  const one = exchange();
  one.abort();
  let heard = 0;
  const back = one.onAbort(() => heard++);
  t.equal(heard, 1);
  back();
  t.equal(heard, 1);
});

t.test("one who hears of it may ask again and hears that at once too", async (t) => {
  const one = exchange();
  const heard: string[] = [];
  one.onAbort(() => {
    heard.push("outer");
    one.onAbort(() => heard.push("inner"));
  });
  one.abort();
  t.same(heard, ["outer", "inner"]);
});

t.test("the signal is one and the same, and fires when the client leaves", async (t) => {
  const one = exchange();
  const { signal } = one;
  t.equal(one.signal, signal);
  t.notOk(signal.aborted);
  let fired = 0;
  signal.addEventListener("abort", () => fired++);
  one.abort();
  t.ok(signal.aborted);
  t.equal(fired, 1);
});

t.test("a signal that is asked for too late has fired already", async (t) => {
  const one = exchange();
  one.abort();
  t.ok(one.signal.aborted);
});

t.test("elapsed counts from arrival", async (t) => {
  const one = new Exchange({ clock: performance.now() - 1000 } as Arrival);
  t.ok(one.elapsed >= 1000);
});
