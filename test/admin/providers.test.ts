import t from "tap";
import { providers } from "../../src/admin/providers.ts";
import type { LiveProvider } from "../../src/admin/questions.ts";
import type { AdminSubject } from "../../src/admin/served.ts";
import { providerOf } from "../support/provider.ts";

t.test("of what several processes find out the worst is shown, and what runs is added up", async (t) => {
  const target = { model: "v", serves: ["m"], recent: { requests: 4, failed: 1 }, credentials: [] };
  const of = (target: LiveProvider["targets"][number], state: "ok" | "refused"): LiveProvider => ({
    name: "p",
    credentials: [{ label: "KEY", state }],
    targets: [target],
  });
  const answers = [
    [of({ ...target, state: "closed", in_flight: 2, first_byte: 100 }, "ok")],
    [of({ ...target, state: "open", until: 5, in_flight: 1, first_byte: 300 }, "refused")],
  ];
  const configured = [
    { ...providerOf(), websocket: false },
    { ...providerOf({ name: "q" }), websocket: false, off: "Q_KEY is not set" },
  ];
  const written = { providers: new Map([["p", { health: { failures: 3 } }]]) };
  const subject = {
    config: { providers: configured, written },
    askAll: async () => answers,
  } as unknown as AdminSubject;
  const health = {
    ...{ failures: 5, errors: "50%", requests: 20, window: "30s", slow: "off", open: "30s", longest: "30s" },
  };
  t.same(await providers(subject), [
    {
      name: "p",
      url: "http://up/v1",
      speaks: [],
      health,
      written: { health: { failures: 3 } },
      credentials: [{ label: "KEY", state: "refused" }],
      targets: [
        {
          model: "v",
          serves: ["m"],
          state: "open",
          until: 5,
          in_flight: 3,
          first_byte: 200,
          recent: { requests: 8, failed: 2 },
          credentials: [],
        },
      ],
    },
    {
      name: "q",
      url: "http://up/v1",
      speaks: [],
      off: "Q_KEY is not set",
      health,
      written: {},
      credentials: [],
      targets: [],
    },
  ]);
});
