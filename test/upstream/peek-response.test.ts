import t from "tap";
import { peekResponse } from "../../src/upstream/peek-response.ts";

type Look = (pieces: readonly Buffer[], last: boolean, whole: boolean) => boolean;

/** A response of which more comes when somebody says so. */
function coming() {
  const pieces: Buffer[] = [];
  let look: Look = () => true;
  return {
    peek: (asked: Look) => {
      look = asked;
    },
    come: (text: string, last = false, whole = true) => {
      pieces.push(Buffer.from(text));
      return look(pieces, last, whole);
    },
  };
}

t.test("a result is reported once, and the search ends", async (t) => {
  const response = coming();
  let looks = 0;
  const found = peekResponse<string>(response, 10_000, (settle, pieces, last, whole) => {
    looks++;
    const text = Buffer.concat(pieces).toString();
    return text.includes("b") ? settle(`${text} ${last} ${whole}`) : false;
  });
  t.equal(response.come("a"), false);
  t.equal(response.come("b", true, false), true);
  t.equal(response.come("c"), true);
  t.equal(await found, "ab true false");
  t.equal(looks, 2);
});

t.test("without a result in time it is undefined, and later data is not searched", async (t) => {
  const response = coming();
  // The limit's timer keeps no process alive, and nothing else does here.
  const awake = setTimeout(() => {}, 60_000);
  t.teardown(() => clearTimeout(awake));
  const found = peekResponse<string>(response, 1, (settle) => settle("late"));
  t.equal(await found, undefined);
  t.equal(response.come("a"), true);
});

t.test("an inspection that fails is its caller's error, and no one else's", async (t) => {
  const response = coming();
  const found = peekResponse(response, 10_000, () => {
    throw new Error("a protocol's mistake");
  });
  t.equal(response.come("a"), true);
  await t.rejects(async () => await found, { message: "a protocol's mistake" });
});

t.test("what has arrived already is inspected at once, without a promise", (t) => {
  const arrived = {
    peek: (look: Look) => {
      look([Buffer.from("a")], true, true);
    },
  };
  t.equal(
    peekResponse<string>(arrived, 10_000, (settle, [piece]) => settle(`${piece}`)),
    "a",
  );
  t.throws(
    () =>
      peekResponse(arrived, 10_000, () => {
        throw new Error("a protocol's mistake");
      }),
    { message: "a protocol's mistake" },
  );
  t.end();
});
