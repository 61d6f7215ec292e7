import t from "tap";
import { complaint, load } from "./fixture.ts";

const yaml = (health: string, own = "") =>
  `providers: { demo: { url: "demo:"${own && `, health: ${own}`} } }\nmodels: { echo: { targets: [demo:echo] } }\nhealth: ${health}\n`;

t.test("a target is suspended for as long as `open` says, and no longer than `longest`", async (t) => {
  const of = async (health: string, own?: string) => (await load(t, yaml(health, own))).providers[0]?.health;
  t.match(await of("{ open: 5m }"), { open: 300_000, longest: 300_000 });
  t.match(await of("{ open: 5s }"), { open: 5000, longest: 30_000 });
  t.match(await of("{ open: 5s, longest: 1m }"), { open: 5000, longest: 60_000 });
  t.match(await of("{ failures: 3 }", "{ open: 2m }"), { failures: 3, open: 120_000, longest: 120_000 });
  t.match(await of("{ longest: 1m }", "{ open: 10s, longest: 20s }"), { open: 10_000, longest: 20_000 });
});

t.test("a `longest` shorter than `open` is a mistake, wherever the two are", async (t) => {
  for (const [health, own, said] of [
    ["{ open: 5m, longest: 30s }", "", /3:\d+ error: must not be shorter than open/],
    ["{ open: 20s }", "{ longest: 10s }", /1:\d+ error: must not be shorter than open, here or in health:/],
    ["{ longest: 1m }", "{ open: 5m }", /1:\d+ error: must not be longer than longest in health:/],
  ] as const)
    t.match(await complaint(t, yaml(health, own)), said, `${health} ${own}`);
});
