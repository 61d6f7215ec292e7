import t from "tap";
import { UNREAD_MEMBERS } from "../../../../plugins/protocols/openai/objects.ts";
import { ReferenceFinder } from "../../../../src/objects/reference-finder.ts";

t.test("ids in labels, schemas and the vendor's own earlier output name no objects", async (t) => {
  const naming = new ReferenceFinder({
    topLevel: [],
    anyDepth: ["file_id"],
    notSearched: UNREAD_MEMBERS,
    createdIdMembers: [],
    createdIds: () => [],
    mayHoldIds: () => false,
  });
  for (const name of ["metadata", "annotations", "arguments", "json_schema"])
    t.same(naming.findInJson({ [name]: { file_id: "file-1" } }), [], name);
  t.match(naming.findInJson({ content: { file_id: "file-1" } }), [{ id: "file-1", param: "content.file_id" }]);
});
