import t from "tap";
import { looksLikeId, possibleIds } from "../../src/objects/possible-ids.ts";

t.test("a run of letters and digits is an id, and names, versions and dates are none", async (t) => {
  for (const id of ["resp_0123456789abcdef", "file-abc12345", "a/b-12345678x", "123456789"]) t.ok(looksLikeId(id), id);
  for (const name of ["generateContent", "gpt-4o-2024-08-06", "gpt-4o-20240806", "v1beta", "20", "asc", ""])
    t.notOk(looksLikeId(name), name);
});

t.test("a query parameter may have several ids, and names with an id at their end", async (t) => {
  const json = '{"filter":{"ids":["vs_0123456789c"]}}';
  const found = possibleIds("after", `resp_0123456789a, 20;models/file_0123456789b ${json}`);
  t.same(
    found.map(({ id, param }) => [id, param]),
    [
      ["resp_0123456789a", "after"],
      ["file_0123456789b", "after"],
      ["vs_0123456789c", "after"],
    ],
  );
  t.ok(
    found.every(({ mayBeInvented }) => mayBeInvented),
    "unknown ones are no error",
  );
});
