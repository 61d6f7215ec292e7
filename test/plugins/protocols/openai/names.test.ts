import t from "tap";
import { fitName } from "../../../../plugins/protocols/openai/names.ts";
import { ToolNames } from "../../../../src/translation/names.ts";

t.test("a tool's name fits the vendor, and leads back to the client's", async (t) => {
  const names = new ToolNames();
  for (const name of ["get_weather", "a.b/c", "x".repeat(100)]) {
    const fitted = fitName(name, names);
    t.match(fitted, /^[a-zA-Z0-9_-]{1,64}$/);
    t.equal(names.back(fitted), name);
  }
});
