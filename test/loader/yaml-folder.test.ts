import t from "tap";
import { z } from "zod";
import { readYamlFolder } from "../../src/loader/yaml-folder.ts";

const FORM = z.strictObject({ order: z.number().default(100), name: z.string() });

t.test("the files of a folder are sorted by their order, then by their names", async (t) => {
  const folder = t.testdir({
    "c.yaml": "name: C\n",
    "b.yaml": "name: B\n",
    "last.yaml": "{ name: Last, order: 200 }\n",
    "z.yaml": "{ name: First, order: 1 }\n",
    "README.md": "# no YAML",
  });
  t.same(
    readYamlFolder(folder, FORM).map(({ id, name }) => `${id} ${name}`),
    ["z First", "b B", "c C", "last Last"],
  );
});

t.test("an invalid file is reported with its name and the reason", async (t) => {
  const wrong = (text: string) => () => readYamlFolder(t.testdir({ "acme.yaml": text }), FORM);
  t.throws(wrong("nam: Acme\n"), { name: "PluginError", message: /acme\.yaml[\s\S]*nam/ });
  t.throws(wrong("name: [\n"), { name: "PluginError", message: /acme\.yaml/ });
});
