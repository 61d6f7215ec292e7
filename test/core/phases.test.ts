import t from "tap";
import type {
  AccessExchange,
  DoneExchange,
  RequestExchange,
  ResponseExchange,
  RouteExchange,
  SendExchange,
} from "../../src/core/phases.ts";
import type { Plugin } from "../../src/core/plugin.ts";

type Has<T, Name> = Name extends keyof T ? true : false;
type Takes<Phase extends keyof Plugin, Exchange> =
  Plugin extends Partial<Record<Phase, (exchange: never, more: never) => unknown>>
    ? ((exchange: Exchange) => void) extends NonNullable<Plugin[Phase]>
      ? true
      : false
    : false;

// The compiler is what tests these.

t.test("members that a phase does not have yet are not in its type", async (t) => {
  const access: [Has<AccessExchange, "body">, Has<AccessExchange, "targets">] = [false, false];
  const request: [Has<RequestExchange, "body">, Has<RequestExchange, "targets">] = [true, false];
  const route: [Has<RouteExchange, "targets">, Has<RouteExchange, "attempts">] = [true, false];
  const send: [Has<SendExchange, "attempts">, Has<SendExchange, "head">, Has<SendExchange, "edit">] = [
    true,
    false,
    false,
  ];
  const dropped: [Has<SendExchange, "droppedFromResponse">, Has<ResponseExchange, "droppedFromResponse">] = [
    false,
    true,
  ];
  const response: [Has<ResponseExchange, "head">, Has<ResponseExchange, "outcome">] = [true, false];
  const done: [Has<DoneExchange, "outcome">, Has<DoneExchange, "edit">] = [true, false];
  t.same([access, request, route, send, dropped, response, done].flat().filter(Boolean).length, 6);
});

t.test("a plugin's phase receives no more than its type has", async (t) => {
  const fits: [Takes<"access", AccessExchange>, Takes<"route", AccessExchange>] = [true, true];
  const tooMuch: [Takes<"access", RequestExchange>, Takes<"request", RouteExchange>, Takes<"done", RouteExchange>] = [
    false,
    false,
    false,
  ];
  t.same([...fits, ...tooMuch], [true, true, false, false, false]);
});
