import t from "tap";
import { methodsOf, misspeltMethods, PLUGIN_METHODS, phasesOf } from "../../src/loader/methods.ts";

t.test("methods are found in a class, in its base classes and in fields; nothing else is one", async (t) => {
  class Base {
    request() {}
    get done() {
      return 1;
    }
  }
  class Own extends Base {
    count = 1;
    readonly send = () => {};
    start() {}
  }
  t.same(methodsOf(Own.prototype), ["start", "request"]);
  t.same(methodsOf(new Own()), ["send", "start", "request"]);
});

t.test("a name similar to a phase's is reported, unless the class has that phase too", async (t) => {
  t.same(misspeltMethods(["respone", "remember"]), ["respone is no phase, did you mean response?"]);
  t.same(misspeltMethods(["respone", "response"]), []);
  t.same(misspeltMethods(PLUGIN_METHODS), []);
});

t.test(
  "the phases of a class are known before it is constructed: inherited ones, and functions in fields",
  async (t) => {
    class Base {
      access() {}
      readonly route = () => {};
    }
    class Own extends Base {
      done() {}
      other() {}
    }
    t.same(phasesOf(Own), ["access", "route", "done"]);
    t.same(phasesOf(class {}), []);
  },
);
