import t from "tap";
import { boundaryOf, FieldFinder } from "../../src/downstream/multipart.ts";
import { gathered } from "../support/gathered.ts";

const part = (head: string, value: string) => `--xx\r\ncontent-disposition: form-data; ${head}\r\n\r\n${value}\r\n`;
const find = (body: Buffer, step: number) => {
  const finder = new FieldFinder("xx", "model");
  for (let at = 0; at < body.length; at += step) finder.push(body.subarray(at, at + step));
  return finder.found;
};

gathered(t, "a field is found wherever it stands and however the form is cut", async (t) => {
  const file = part(
    'name="image"; filename="model.png"\r\ncontent-type: image/png',
    `\r\n--x\r\n\r\nname="model"\r\n\r\nnot it`,
  );
  const forms = {
    first: `${part('name="model"', "image-1")}${file}--xx--\r\n`,
    last: `${file}${part("name=model", "image-1")}--xx--\r\n`,
    "behind an empty part": `${part('name="empty"', "")}${part('name="model"', "image-1")}--xx--\r\n`,
    "behind a preamble": `preamble\r\n${part('name="model"', "image-1")}--xx--`,
  };
  for (const [name, form] of Object.entries(forms)) {
    const body = Buffer.from(form);
    const at = body.lastIndexOf("image-1");
    for (let step = 1; step < 60; step++)
      t.same(find(body, step), { start: at, end: at + 7 }, `${name}, cut every ${step}`);
  }
});

t.test("a form without the field, or cut within it, has none", async (t) => {
  t.equal(find(Buffer.from(`${part('name="models"', "x")}--xx--`), 7), undefined);
  t.equal(find(Buffer.from('--xx\r\ncontent-disposition: form-data; name="model"\r\n\r\nimage'), 7), undefined);
});

t.test("the boundary is read from the content-type, quoted or not", async (t) => {
  t.equal(boundaryOf("multipart/form-data; boundary=abc"), "abc");
  t.equal(boundaryOf('Multipart/Form-Data; charset=utf-8; boundary="a b"'), "a b");
  t.equal(boundaryOf("multipart/form-data"), undefined);
  t.equal(boundaryOf("application/json; boundary=abc"), undefined);
});
