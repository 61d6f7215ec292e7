import t from "tap";
import { preventRendering } from "../../src/upstream/prevent-rendering.ts";
import { HeaderList } from "../../src/wire/headers.ts";

const policy = (...types: string[]) => {
  const headers = new HeaderList(types.flatMap((type) => ["Content-Type", type]));
  preventRendering(headers);
  return [headers.get("content-security-policy"), headers.get("x-content-type-options")];
};

t.test("JSON and event streams with a single content type pass unchanged", async (t) => {
  for (const type of [
    ...["application/json", "application/json; charset=utf-8", "Application/JSON ;charset=x", "text/event-stream"],
    ...["application/problem+json", "text/event-stream;charset=utf-8"],
  ])
    t.same(policy(type), [undefined, undefined], type);
});

t.test(
  "all other content runs no script in a browser, also where a browser uses another type than the first",
  async (t) => {
    for (const types of [
      ...[[], [""], ["text/html"], ["image/svg+xml"], ["application/jsonp"], ["application/json,text/html"]],
      ...[
        ["application/json; a=b, text/html"],
        ["application/json", "text/html"],
        ["application/json", "application/json"],
      ],
      ...[["text/html", "application/json"], ["application/json text/html"]],
    ])
      t.same(policy(...types), ["sandbox", "nosniff"], types.join(" | "));
  },
);
