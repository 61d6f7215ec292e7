import t from "tap";
import { Body } from "../../src/core/body.ts";
import { findOtherModels, otherModelEdits } from "../../src/core/other-models.ts";
import type { Protocol } from "../../src/core/protocol.ts";

const protocol = {
  otherModels: { searched: ["tools"], containers: ["input"], notSearched: ["schema"] },
} as unknown as Protocol;
const body = (text: string, cut = text.length): Body =>
  new Body([Buffer.from(text.slice(0, cut)), Buffer.from(text.slice(cut))], "json");
const named = (text: string) =>
  findOtherModels(body(text), protocol, true).map(({ name, path }) => `${path.join(".")}=${name}`);

t.test("a model is found at any depth of a tool, also in one that an item contains", async (t) => {
  t.same(named('{"model":"m","tools":[{"type":"draw","model":"a","svg":{"model" : "b"}}]}'), [
    "tools.0.model=a",
    "tools.0.svg.model=b",
  ]);
  t.same(named('{"input":[{"model":"x","tools":[{"tools":[{"model":"c"}]}]}]}'), ["input.0.tools.0.tools.0.model=c"]);
  t.same(named('{"tools":[{"mod\\u0065l":"a"}]}'), ["tools.0.model=a"]);
  t.same(named('{"tools":{"model":"a"}}'), ["tools.model=a"]);
});

t.test("the models of a tool that calls several are found one by one, and those in their own member", async (t) => {
  const tool = '{"type":"x","parameters":{"analysis_models":["a","b"],"judge_model":"c","Analyſis_Models":["d"]}}';
  const at = "tools.0.parameters";
  t.same(named(`{"tools":[${tool}]}`), [
    `${at}.analysis_models.0=a`,
    `${at}.analysis_models.1=b`,
    `${at}.judge_model=c`,
    `${at}.Analyſis_Models.0=d`,
  ]);
  t.same(named('{"tools":[{"judge_mo\\u0064el":"a"}]}'), ["tools.0.judge_model=a"]);
  t.same(named('{"tools":[{"models":{"answering_model":"a"}}]}'), ["tools.0.models.answering_model=a"]);
  const words = { otherModels: { topLevel: ["guard"], below: [], notSearched: [] } } as unknown as Protocol;
  const asked = body('{"guard":"a","more":{"guard":"b"}}');
  const found = findOtherModels(asked, words, false);
  t.same(found, [{ name: "a", prefix: "", path: ["guard"] }]);
  t.equal(
    asked
      .edited(otherModelEdits(asked, found, () => "z"))
      .bytes()
      .toString(),
    '{"guard":"z","more":{"guard":"b"}}',
  );
});

t.test("a list at the top names a model by each of its texts", async (t) => {
  const lists = {
    otherModels: { topLevel: ["models"], searched: ["fallbacks"], notSearched: [] },
  } as unknown as Protocol;
  const asked = body('{"models":["a",{"b":1},"c"],"fallbacks":[{"x":{"models":["d"]}}]}');
  const found = findOtherModels(asked, lists, false);
  t.same(
    found.map(({ name, path }) => `${path.join(".")}=${name}`),
    ["models.0=a", "models.2=c", "fallbacks.0.x.models.0=d"],
  );
});

t.test("a tool that runs a model of the vendor's choice is found where it names none", async (t) => {
  const choosing = {
    otherModels: {
      searched: ["tools", "plugins"],
      notSearched: ["schema"],
      vendorChoice: ["preset"],
      choosingTools: ["x:mix"],
    },
  } as unknown as Protocol;
  const chosen = (text: string, everywhere = true) =>
    findOtherModels(body(text), choosing, everywhere).map(({ name, path, unnamed }) =>
      unnamed ? `${path.join(".")} chooses` : `${path.join(".")}=${name}`,
    );
  t.same(chosen('{"tools":[{"type":"x:mix"},{"type":"other"}]}'), ["tools.0 chooses"]);
  t.same(chosen('{"plugins":[{"id":"x:\\u006dix","schema":{"model":"a"}}]}'), ["plugins.0 chooses"]);
  t.same(chosen('{"tools":[{"type":"x:mix","parameters":{"judge_model":"a"}}]}'), ["tools.0.parameters.judge_model=a"]);
  t.same(chosen('{"tools":[{"type":"x:mix","parameters":{"Preset":"quality"}}]}'), [
    "tools.0.parameters.Preset chooses",
  ]);
  t.same(chosen('{"tools":[{"type":"function","function":{"name":"x:mix"}}]}'), []);
  t.same(chosen('{"tools":[{"type":"x:mix"}]}', false), [], "only restricted callers");
});

t.test("a tool with a model by default lets the vendor choose it, unless its own member names one", async (t) => {
  const drawing = { otherModels: { searched: ["tools"], notSearched: ["schema"], defaultModelTools: ["draw"] } };
  const chosen = (text: string, everywhere = true) =>
    findOtherModels(body(text), drawing as unknown as Protocol, everywhere).map(({ name, path, unnamed }) =>
      unnamed ? `${path.join(".")} chooses` : `${path.join(".")}=${name}`,
    );
  t.same(chosen('{"tools":[{"type":"other"},{"type":"draw"}]}'), ["tools.1 chooses"]);
  t.same(chosen('{"tools":[{"type":"dr\\u0061w"}]}'), ["tools.0 chooses"]);
  t.same(chosen('{"tools":[{"type":"draw","model":"a"}]}'), ["tools.0.model=a"]);
  t.same(chosen('{"tools":[{"type":"draw","svg":{"model":"a"}}]}'), ["tools.0.svg.model=a", "tools.0 chooses"]);
  t.same(chosen('{"tools":[{"type":"draw"}]}', false), [], "only restricted callers");
});

t.test("other spellings of the member are checked too: some servers match names in any case", async (t) => {
  for (const name of ["Model", "MODEL", "modeL", "mOdEl", "moDEl"])
    t.same(named(`{"tools":[{"${name}" : "a"}]}`), [`tools.0.${name}=a`]);
  t.same(named('{"tools":[{"model":"a","Model":"b"}]}'), ["tools.0.model=a", "tools.0.Model=b"]);
  t.same(named('{"input":[{"Tools":[{"model":"a"}]}]}'), ["input.0.Tools.0.model=a"]);
});

t.test("for callers without a model restriction only the usual places are checked", async (t) => {
  const text = '{"tools":[{"model":"a"}],"input":[{"tools":[{"model":"b"}]}],"moderation":1}';
  t.match(findOtherModels(body(text), protocol, false), [{ name: "a" }]);
  t.equal(findOtherModels(body(text), protocol, false).length, 1);
  t.same(findOtherModels(body('{"tools":[{"mod\\u0065l":"a"}]}'), protocol, false), []);
});

t.test("schemas, texts and other members name no model", async (t) => {
  for (const text of [
    '{"model":"m","tools":"default"}',
    '{"tools":[{"schema":{"model":"a"},"properties":{"model":{"type":"string"}}}]}',
    '{"tools":[{"description":"\\"model\\": \\"a\\""}],"input":[{"model":"a"}],"more":[{"model":"a"}]}',
    '{"tools":[{"required":["model"]},{"model":1}]}',
    "{}",
  ])
    t.same(named(text), [], text);
  t.same(findOtherModels(body('{"tools":[{"model":"a"}]}'), {} as Protocol, true), []);
  t.same(findOtherModels(Body.empty, protocol, true), []);
});

t.test("a tool with a duplicate member is refused: parsers differ in which one they use", async (t) => {
  t.throws(() => named('{"tools":[{"model":"a","model":"b"}]}'), { code: "invalid_json" });
  t.same(named('{"other":[{"a":1,"a":2}],"tools":[{"model":"a"}]}'), ["tools.0.model=a"]);
});

t.test("more than a thousand are refused", async (t) => {
  const tools = (count: number) => `{"tools":[${Array(count).fill('{"model":"a"}').join()}]}`;
  t.equal(named(tools(1000)).length, 1000);
  t.throws(() => named(tools(1001)), { code: "invalid_field", param: "tools.1000" });
});

t.test("prefixes of names are kept", async (t) => {
  const named = { otherModels: { searched: ["requests"], notSearched: [], prefix: "models/" } } as unknown as Protocol;
  const asked = body('{"requests":[{"model":"models/a/b"},{"model":"c"}]}');
  const found = findOtherModels(asked, named, true);
  t.match(found, [
    { name: "a/b", prefix: "models/" },
    { name: "c", prefix: "" },
  ]);
  const edits = otherModelEdits(asked, found, ({ name }) => name.toUpperCase());
  t.equal(asked.edited(edits).bytes().toString(), '{"requests":[{"model":"models/A/B"},{"model":"C"}]}');
});

t.test("names are replaced; all other bytes are kept, wherever the body is split", async (t) => {
  const text = '{ "model" : "m", "tools" : [ {"model":"a", "n":1.0}, {"model" :"b"} ] }';
  for (let cut = 0; cut < text.length; cut += 7) {
    const asked = body(text, cut);
    const edits = otherModelEdits(asked, findOtherModels(asked, protocol, true), ({ name }) =>
      name === "a" ? 'q"' : name,
    );
    t.equal(asked.edited(edits).bytes().toString(), text.replace('"a"', '"q\\""'));
  }
  t.same(
    otherModelEdits(body(text), findOtherModels(body(text), protocol, true), ({ name }) => name),
    [],
  );
});
