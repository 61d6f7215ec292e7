import t from "tap";
import { UNREAD } from "../../../../plugins/protocols/openai/objects.ts";
import { NamedObjects } from "../../../../src/objects/named.ts";

t.test("ids in labels, schemas and what the vendor told itself before name nothing", async (t) => {
  const naming = new NamedObjects({
    top: [],
    anywhere: ["file_id"],
    unread: UNREAD,
    members: [],
    made: () => [],
    tells: () => false,
  });
  for (const name of ["metadata", "annotations", "arguments", "json_schema"])
    t.same(naming.in({ [name]: { file_id: "file-1" } }), [], name);
  t.match(naming.in({ content: { file_id: "file-1" } }), [{ id: "file-1", param: "content.file_id" }]);
});
