import t from "tap";
import { PostgresClaims } from "../../../src/store/postgres/alert-claims.ts";
import { openPostgres } from "../../../src/store/postgres/migrations.ts";
import { placeOf, startPostgres } from "../../support/postgres.ts";

const server = await startPostgres(t);

if (server)
  t.test(
    "of several that notice the same alert one reports it, until its state changes or it is long ago",
    async (t) => {
      const url = await server.database();
      const opened = await Promise.all([1, 2, 3].map(() => openPostgres(placeOf(url), 1)));
      const all = opened.map(({ database }) => new PostgresClaims(database));
      const claimed = async (state: string, patience = 60_000) =>
        (await Promise.all(all.map((claims) => claims.claim("target up:fine", state, patience, false)))).filter(Boolean)
          .length;
      t.equal(await claimed("bad"), 1);
      t.equal(await claimed("bad"), 0);
      t.equal(await claimed("resolved"), 1);
      t.equal(await claimed("bad"), 1);
      await server.ask(url, "update model_gateway.told set at = at - interval '2 minutes'");
      t.equal(await claimed("bad"), 1);
      await all[0]?.release("target up:fine", "resolved");
      t.equal(await claimed("bad"), 0, "another state was released");
      await all[0]?.release("target up:fine", "bad");
      t.equal(await claimed("bad"), 1);
      const risen = async (state: string) =>
        (await Promise.all(all.map((claims) => claims.claim("budget key a", state, 60_000, true)))).filter(Boolean)
          .length;
      t.equal(await risen("since 1: 100 %"), 1);
      t.equal(await risen("since 1: 080 %"), 0, "a lower mark of the same period comes too late");
      t.equal(await risen("since 1: 100 %"), 0);
      t.equal(await risen("since 2: 080 %"), 1, "another period");
      await server.ask(url, "update model_gateway.told set at = at - interval '2 minutes'");
      t.equal(await risen("since 1: 100 %"), 0);
      t.equal(await risen("since 2: 080 %"), 1, "again");
      t.same((await (all[0] as PostgresClaims).unresolved()).toSorted(), ["budget key a", "target up:fine"]);
      t.equal(await claimed("resolved"), 1);
      t.same(await (all[1] as PostgresClaims).unresolved(), ["budget key a"], "what has ended is no longer among them");
      await all[0]?.release("target up:fine", "resolved");
      t.match(
        [...(await (all[1] as PostgresClaims).unresolved())].sort(),
        ["budget key a", "target up:fine"],
        "its end is not told",
      );
      for (const { database } of opened) await database.close();
    },
  );
