import t from "tap";
import { KEY, startGateway } from "../../../support/gateway.ts";

t.test(
  "no image is made from a file of another key: in JSON it must belong to the key, in a form it is sent",
  async (t) => {
    const { url } = await startGateway(
      t,
      'providers: { demo: { url: "demo:" } }\nmodels: { painter: { targets: [demo:image] } }\n',
    );
    const error = async (path: string, body: string | FormData) => {
      const headers: Record<string, string> = { authorization: `Bearer ${KEY}` };
      if (typeof body === "string") headers["content-type"] = "application/json";
      const answer = await fetch(`${url}/v1/images/${path}`, { method: "POST", headers, body });
      const json = (await answer.json()) as { error?: { code: string; param: string; message: string } };
      return answer.ok ? undefined : json.error;
    };
    const asked = { model: "painter", prompt: "a cat" };
    t.match(await error("generations", JSON.stringify({ ...asked, images: [{ file_id: "file-theirs" }] })), {
      code: "object_not_found",
      param: "images.0.file_id",
    });
    t.equal(await error("generations", JSON.stringify({ ...asked, prompt: '"file_id" of a cat' })), undefined);
    const form = (field: string) => {
      const made = new FormData();
      for (const [name, value] of Object.entries(asked)) made.append(name, value);
      made.append(field, "file-theirs");
      return made;
    };
    for (const field of ["file_id", "images[0][file_id]", "mask.File_Id"])
      t.match(await error("edits", form(field)), {
        code: "invalid_field",
        param: field,
        message: /send the file itself/,
      });
    t.equal(await error("edits", form("filename")), undefined);
  },
);
