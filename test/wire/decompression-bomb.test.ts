import t from "tap";
import { isDecompressionBomb, MAX_RATIO } from "../../src/wire/decompression-bomb.ts";

t.test("from 1 MiB on a body may grow to a hundred times its size", async (t) => {
  const mib = 1 << 20;
  t.notOk(isDecompressionBomb(mib, 1), "a small one may grow more");
  t.ok(isDecompressionBomb(mib + 1, 1));
  t.notOk(isDecompressionBomb(MAX_RATIO * mib, mib));
  t.ok(isDecompressionBomb(MAX_RATIO * mib + 1, mib));
});
