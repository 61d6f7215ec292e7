import t from "tap";
import anthropic from "../../plugins/protocols/anthropic-messages/index.ts";
import gemini from "../../plugins/protocols/gemini/index.ts";
import chat from "../../plugins/protocols/openai-chat/index.ts";
import responses from "../../plugins/protocols/openai-responses/index.ts";
import { Body } from "../../src/core/body.ts";
import type { VendorObjects } from "../../src/core/object-members.ts";
import type { Protocol } from "../../src/core/protocol.ts";
import { ReferenceFinder, referenceFinder } from "../../src/objects/reference-finder.ts";
import { hostileTexts, runLinear } from "../support/linear-work.ts";

const bodyOf = (text: string) => new Body([Buffer.from(text)], "json");

function named({ objects }: Protocol, body: object | string): string[] {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  return objects ? new ReferenceFinder(objects).findInBody(bodyOf(text)).map(({ id, param }) => `${param}=${id}`) : [];
}

const CASES: readonly (readonly [Protocol, object, ...string[]])[] = [
  [
    gemini,
    {
      tools: [
        { retrieval: { vertexRagStore: { ragResources: [{ ragCorpus: "projects/p/locations/l/ragCorpora/7" }] } } },
      ],
    },
    "tools.0.retrieval.vertexRagStore.ragResources.0.ragCorpus=7",
  ],
  [
    gemini,
    {
      tools: [
        { retrieval: { vertex_ai_search: { engine: "e", data_store_specs: [{ data_store: "x/dataStores/d" }] } } },
      ],
    },
    "tools.0.retrieval.vertex_ai_search.engine=e",
    "tools.0.retrieval.vertex_ai_search.data_store_specs.0.data_store=d",
  ],
  [
    gemini,
    { tools: [{ retrieval: { externalApi: { endpoint: "https://any.example" } } }] },
    "tools.0.retrieval.externalApi=externalApi",
  ],
  [
    gemini,
    { generation_config: { routing_config: { manual_mode: { model_name: "dear" } } } },
    "generation_config.routing_config=routing_config",
  ],
  [
    gemini,
    { generationOutputConfig: { outputUriPrefix: "gs://theirs/x/" } },
    "generationOutputConfig.outputUriPrefix=gs://theirs",
  ],
  [
    gemini,
    { tools: [{ googleMaps: { authConfig: { apiKeyConfig: { apiKeySecret: "projects/p/secrets/s" } } } }] },
    "tools.0.googleMaps.authConfig.apiKeyConfig.apiKeySecret=apiKeySecret",
  ],
  [
    gemini,
    { tools: [{ google_maps: { auth_config: { google_service_account_config: {} } } }] },
    "tools.0.google_maps.auth_config.google_service_account_config=google_service_account_config",
  ],
  [gemini, { tools: [{ googleMaps: { authConfig: { apiKeyConfig: { apiKeyString: "a key of one's own" } } } }] }],
  [gemini, { modelArmorConfig: { promptTemplateName: "p/templates/t" } }, "modelArmorConfig.promptTemplateName=t"],
  [chat, { data_sources: [{ type: "azure_search", parameters: { endpoint: "x" } }] }, "data_sources=data_sources"],
  [responses, { previous_response_id: "resp_1" }, "previous_response_id=resp_1"],
  [responses, { previous_response_id: null, conversation: null, prompt: null }],
  [
    responses,
    { prompt_cache_options: { comparison_response_id: "resp_1" } },
    "prompt_cache_options.comparison_response_id=resp_1",
  ],
  [responses, { conversation: "conv_1" }, "conversation=conv_1"],
  [responses, { conversation: { id: "conv_1" } }, "conversation.id=conv_1"],
  [responses, { prompt: { id: "pmpt_1", version: "2" } }, "prompt.id=pmpt_1"],
  [responses, { input: [{ type: "item_reference", id: "rs_1" }] }, "input.0.id=rs_1"],
  [responses, { input: [{ id: "rs_1", type: "reasoning", summary: [] }] }, "input.0.id=rs_1"],
  [responses, { input: [{ id: "rs_1", type: "reasoning", summary: [], encrypted_content: "gAAA" }] }],
  [responses, { input: [{ type: "reasoning", id: null, summary: [] }] }],
  [responses, { input: [{ id: "rs_1" }, { type: null, id: "msg_2" }] }, "input.0.id=rs_1", "input.1.id=msg_2"],
  [responses, { input: [{ id: "rs_1", type: null }] }, "input.0.id=rs_1"],
  [responses, { input: [{ id: "rs_1", ["x".repeat(80)]: null }] }, "input.0.id=rs_1"],
  [
    responses,
    {
      input: [
        { id: "msg_1", role: "user", content: "x" },
        { type: "reasoning", id: "rs_1" },
      ],
    },
    "input.1.id=rs_1",
  ],
  [
    responses,
    { input: [{ role: "user", content: [{ type: "input_file", file_id: "file-1" }] }] },
    "input.0.content.0.file_id=file-1",
  ],
  [
    responses,
    { tools: [{ type: "file_search", vector_store_ids: ["vs_1", "vs_2"] }] },
    "tools.0.vector_store_ids.0=vs_1",
    "tools.0.vector_store_ids.1=vs_2",
  ],
  [responses, { tools: [{ type: "code_interpreter", container: "cntr_1" }] }, "tools.0.container=cntr_1"],
  [responses, { tools: [{ type: "mcp", tunnel_id: "tunnel_1" }] }, "tools.0.tunnel_id=tunnel_1"],
  [responses, { input: [{ type: "image_generation_call", id: "ig_1" }] }, "input.0.id=ig_1"],
  [
    responses,
    { input: [{ id: "ig_1", status: "completed", type: "image_generation_call", result: null }] },
    "input.0.id=ig_1",
  ],
  [responses, { input: [{ type: "image_generation_call", id: "ig_1", result: "aGk=" }] }, "input.0.id=ig_1"],
  [
    responses,
    { tools: [{ type: "code_interpreter", container: { type: "auto", file_ids: ["file-1"] } }] },
    "tools.0.container.file_ids.0=file-1",
  ],
  [responses, { input: [{ type: "function_call", arguments: '{"file_id":"x"}' }], metadata: { file_id: "mine" } }],
  [responses, { tools: [{ type: "function", parameters: { properties: { file_id: { type: "string" } } } }] }],
  [
    chat,
    { messages: [{ content: [{ type: "file", file: { file_id: "file-1" } }] }] },
    "messages.0.content.0.file.file_id=file-1",
  ],
  [
    chat,
    { messages: [{ role: "assistant", audio: { id: "audio_1" } }], audio: { voice: "alloy" } },
    "messages.0.audio.id=audio_1",
  ],
  [chat, { audio: { format: "wav", voice: { id: "voice_1" } } }, "audio.voice.id=voice_1"],
  [chat, { audio: { Voice: { ID: "voice_1" } } }, "audio.Voice.id=voice_1"],
  [anthropic, { container: "container_1" }, "container=container_1"],
  [
    anthropic,
    { container: { id: "container_1", skills: [{ type: "anthropic", skill_id: "pptx" }, { skill_id: "skill_1" }] } },
    "container.id=container_1",
    "container.skills.1.skill_id=skill_1",
  ],
  [
    anthropic,
    { messages: [{ content: [{ type: "document", source: { type: "file", file_id: "file_1" } }] }] },
    "messages.0.content.0.source.file_id=file_1",
  ],
  [anthropic, { messages: [{ content: [{ type: "tool_use", input: { file_id: "any thing" } }] }] }],
  [anthropic, { user_profile_id: "uprof_1" }, "user_profile_id=uprof_1"],
  [gemini, { cachedContent: "cachedContents/abc" }, "cachedContent=abc"],
  [chat, { extra_body: { google: { cached_content: "cachedContents/abc" } } }, "extra_body.google.cached_content=abc"],
  [chat, { google: { cachedContent: "projects/p/locations/l/cachedContents/12" } }, "google.cachedContent=12"],
  [chat, { cached_content: "cachedContents/abc" }, "cached_content=abc"],
  [chat, { extra_body: { google: { Cached_Content: "abc" } } }, "extra_body.google.Cached_Content=abc"],
  [
    chat,
    { messages: [{ role: "user", content: [{ type: "file", file: { file_id: "files/abc" } }] }] },
    "messages.0.content.0.file.file_id=abc",
  ],
  [
    gemini,
    {
      contents: [
        {
          parts: [
            { functionResponse: { response: { fileUri: "x" }, parts: [{ fileData: { fileUri: "files/abc" } }] } },
          ],
        },
      ],
    },
    "contents.0.parts.0.functionResponse.parts.0.fileData.fileUri=abc",
  ],
  [gemini, { cached_content: "projects/p/locations/l/cachedContents/12" }, "cached_content=12"],
  [
    gemini,
    { generateContentRequest: { model: "models/m", cachedContent: "cachedContents/abc" } },
    "generateContentRequest.cachedContent=abc",
  ],
  [
    gemini,
    { generate_content_request: { Cached_Content: "cachedContents/abc" } },
    "generate_content_request.Cached_Content=abc",
  ],
  [
    gemini,
    {
      contents: [
        { parts: [{ fileData: { fileUri: "https://generativelanguage.googleapis.com/v1beta/files/abc-1" } }] },
      ],
    },
    "contents.0.parts.0.fileData.fileUri=abc-1",
  ],
  [
    gemini,
    {
      contents: [
        {
          parts: [
            { fileData: { fileUri: "https://www.youtube.com/watch?v=x" } },
            { functionCall: { args: { fileUri: "files/x" } } },
          ],
        },
      ],
    },
  ],
  [
    gemini,
    { tools: [{ fileSearch: { fileSearchStoreNames: ["fileSearchStores/s-1"] } }] },
    "tools.0.fileSearch.fileSearchStoreNames.0=s-1",
  ],
];

for (const [protocol, body, ...expected] of CASES)
  t.test(`${protocol.name} ${JSON.stringify(body).slice(0, 90)}`, async (t) => {
    t.same(named(protocol, body), expected);
  });

/** A text in pieces of one length. */
const inPieces = (text: string, length: number): Buffer[] =>
  Array.from({ length: Math.ceil(text.length / length) }, (_, i) =>
    Buffer.from(text.slice(i * length, (i + 1) * length)),
  );

t.test("an object is found however small the chunks are in which the body arrives", async (t) => {
  const naming = new ReferenceFinder(responses.objects as NonNullable<Protocol["objects"]>);
  for (const text of [
    '{"input":[{"content":[{"type":"input_file","fi\\u006Ce\\u005fid":"it-1"}]}]}',
    '{"input":[{"content":[{"type":"input_file","fILe_id":"it-1"}]}]}',
    '{"input":[{"id":"x","type":"web_search"},{"id":"it-1","type":null}]}',
    '{"input":[{"type":"item_reference","id":"it-1"}]}',
  ])
    for (let length = 1; length < 20; length++)
      if (naming.findInBody(new Body(inPieces(text, length), "json"))[0]?.id !== "it-1")
        t.fail(`${text} in pieces of ${length}`);
});

t.test("a name with escapes is found all the same, wherever the body is split", async (t) => {
  const text = '{"input":[{"content":[{"type":"input_file","fi\\u006Ce\\u005fid":"file-1"}]}]}';
  const naming = new ReferenceFinder(responses.objects as NonNullable<Protocol["objects"]>);
  for (let cut = 0; cut <= text.length; cut++) {
    const pieces = [Buffer.from(text.slice(0, cut)), Buffer.from(text.slice(cut))];
    if (naming.findInBody(new Body(pieces, "json"))[0]?.id !== "file-1") t.fail(`split at ${cut}`);
  }
  t.same(named(responses, '{"\\u0070revious_response_id":"resp_1"}'), ["previous_response_id=resp_1"]);
});

t.test("other spellings of names are found too: some servers read names in any case", async (t) => {
  const file = (name: string) => ({ input: [{ content: [{ type: "input_file", [name]: "file-1" }] }] });
  for (const name of ["File_ID", "FILE_ID", "file_Id", "fILe_id"])
    t.same(named(responses, file(name)), [`input.0.content.0.${name}=file-1`]);
  t.same(named(responses, { tools: [{ Container: { File_Ids: ["file-1"] } }] }), [
    "tools.0.Container.File_Ids.0=file-1",
  ]);
  t.same(named(responses, { tools: [{ Container: { Id: "cntr_1" } }] }), ["tools.0.Container.id=cntr_1"]);
  t.same(named(responses, { input: [{ Type: "item_reference", ID: "rs_1" }] }), ["input.0.id=rs_1"]);
  t.same(named(gemini, { contents: [{ parts: [{ fileData: { FileURI: "files/a" } }] }] }), [
    "contents.0.parts.0.fileData.FileURI=a",
  ]);
});

t.test("letters that some servers read as s or k are found too, raw and escaped", async (t) => {
  for (const name of ["vector_\u017ftore_ids", "vector_store_id\u017f", "Vector_\u017fTORE_ID\u017f"]) {
    const text = JSON.stringify({ tools: [{ type: "file_search", [name]: ["vs_1"] }] });
    for (const as of [text, text.replaceAll("\u017f", "\\u017f")])
      t.same(named(responses, as), [`tools.0.${name}.0=vs_1`], as);
  }
  for (const name of ["s\u212aill_id", "\u017fkill_id", "\u017f\u212aill_id"]) {
    const text = JSON.stringify({ tools: [{ type: "shell", skills: [{ [name]: "skill_1" }] }] });
    for (const as of [text, text.replaceAll("\u017f", "\\u017F").replaceAll("\u212a", "\\u212a")])
      t.same(named(responses, as), [`tools.0.skills.0.${name}=skill_1`], as);
  }
  t.same(named(gemini, { tools: [{ fileSearch: { [`file\u017fearchStoreName\u017f`]: ["fileSearchStores/a"] } }] }), [
    "tools.0.fileSearch.file\u017fearchStoreName\u017f.0=a",
  ]);
  t.equal(
    new ReferenceFinder(responses.objects as NonNullable<Protocol["objects"]>).isReferenceField(
      "vector_\u017ftore_ids[0]",
    ),
    true,
  );
});

t.test("a member that names one object is also read as a list of them", async (t) => {
  t.same(named(responses, { previous_response_id: ["resp_1"] }), ["previous_response_id.0=resp_1"]);
});

t.test("members that some servers read as a list are read as one", async (t) => {
  const search = (stores: unknown) => named(responses, { tools: [{ type: "file_search", vector_store_ids: stores }] });
  const at = "tools.0.vector_store_ids";
  t.same(search({ 0: "vs_1", 1: "vs_2" }), [`${at}.0=vs_1`, `${at}.1=vs_2`]);
  t.same(search([["vs_1"]]), [`${at}.0.0=vs_1`]);
  t.same(search([{ id: "vs_1", more: 1 }]), [`${at}.0.id=vs_1`]);
  // A schema that describes such a list.
  t.same(search({ type: "array", items: { type: "string" } }), []);
});

t.test("only an image that is exactly beside its id makes the lookup unnecessary", async (t) => {
  const naming = new ReferenceFinder(responses.objects as NonNullable<Protocol["objects"]>);
  const item = { type: "image_generation_call", id: "ig_1" };
  for (const [more, whole] of [
    [{ result: "aGk=" }, true],
    [{ Result: "aGk=" }, undefined],
    [{ result: "" }, undefined],
    [{ result: ["aGk="] }, undefined],
    [{ result: "aGk=", type: "item_reference" }, undefined],
  ] as const)
    t.match(naming.findInBody(bodyOf(JSON.stringify({ input: [{ ...item, ...more }] }))), [
      { id: "ig_1", hasContent: whole },
    ]);
});

t.test(
  "reasoning without its encrypted state names an object of the vendor's, if it is not the client's own",
  async (t) => {
    const naming = new ReferenceFinder(responses.objects as NonNullable<Protocol["objects"]>);
    const item = { type: "reasoning", id: "rs_1" };
    const text = [{ type: "summary_text", text: "x" }];
    for (const [more, found] of [
      [{ summary: [] }, { hasContent: true, mayBeInvented: undefined }],
      [
        { summary: [], encrypted_content: null },
        { hasContent: true, mayBeInvented: undefined },
      ],
      [
        { summary: [], encrypted_content: "" },
        { hasContent: true, mayBeInvented: undefined },
      ],
      [
        { summary: [], Encrypted_Content: "x" },
        { hasContent: true, mayBeInvented: undefined },
      ],
      [
        { summary: [], encrypted_content: ["x"] },
        { hasContent: true, mayBeInvented: undefined },
      ],
      [{ summary: text }, { hasContent: true, mayBeInvented: true }],
      [
        { summary: [], content: text },
        { hasContent: true, mayBeInvented: true },
      ],
      [
        { summary: text, id: "an agent's: 1" },
        { id: "an agent's: 1", mayBeInvented: true },
      ],
      [
        { summary: [], encrypted_content: "x", Type: "item_reference" },
        { hasContent: undefined, mayBeInvented: undefined },
      ],
    ] as const)
      t.match(naming.findInBody(bodyOf(JSON.stringify({ input: [{ ...item, ...more }] }))), [{ id: "rs_1", ...found }]);
  },
);

t.test("a reference without a type is one in any spelling", async (t) => {
  for (const name of ["ID", "Id", "iD"]) t.same(named(responses, { input: [{ [name]: "rs_1" }] }), ["input.0.id=rs_1"]);
  t.same(named(responses, { input: [{ ID: "x", role: "user", content: "x" }] }), []);
});

t.test("a file's address at the vendor is recognised however it is written", async (t) => {
  const files = (fileUri: string) => named(gemini, { contents: [{ parts: [{ fileData: { fileUri } }] }] });
  const host = "generativelanguage.googleapis.com";
  for (const address of [
    `https://${host}:443/v1beta/files/abc`,
    `https://${host}./v1beta/files/abc?alt=media#x`,
    `https://a:b@${host.toUpperCase()}/v1beta/files/abc`,
    `https:${host}/v1beta/files/abc`,
    `https:///${host}/v1beta/files/abc`,
    `https:\\\\${host}\\v1beta\\files\\abc`,
    "https://generativelanguage%2egoogleapis.com/v1beta/files/abc",
    ` https://${host}/v1beta/files/x/../abc`,
  ])
    t.same(files(address), ["contents.0.parts.0.fileData.fileUri=abc"], address);
  for (const address of [`https://example.com/${host}/v1beta/files/abc`, `https://x${host}.example.com/a`])
    t.same(files(address), [], address);
});

t.test(
  "a host in other letters is not normalised by every parser, and is taken for the vendor's where it may be read so",
  async (t) => {
    const files = (fileUri: string) => named(gemini, { contents: [{ parts: [{ fileData: { fileUri } }] }] });
    for (const host of [
      "\uff47enerativelanguage.googleapis.com",
      "generativelanguage.google\u00adapis.com",
      "generativelanguage\u3002googleapis\uff61com",
      "generativelanguage.google%e2%93%90pis.com",
      "generativelanguage.google\tapi\u017f.com",
      "\u00e4.googleapis.com",
      `${"\u00ad".repeat(600)}googleapis.com`,
      `${"a.".repeat(300)}example.com`,
    ])
      t.same(
        files(`https://${host}/v1beta/files/abc`),
        ["contents.0.parts.0.fileData.fileUri=gs://googleapis.com"],
        host,
      );
    for (const host of [
      "m\u00fcller.example",
      "xn--mller-kva.example",
      "example.com:80",
      "%zz.example",
      "a@\u00e4.example",
    ])
      t.same(files(`https://${host}/googleapis.com/files/abc`), [], host);
    const { canParse } = URL;
    t.teardown(() => Object.assign(URL, { canParse }));
    let parsed = 0;
    Object.assign(URL, { canParse: () => ++parsed > 0 && false });
    for (const host of ["\u00e4.".repeat(450), "\u00e4.".repeat(100), "xn--4ca.".repeat(60), "\u00e4.googleapis."])
      files(`https://${host}com/x.png`);
    t.equal(parsed, 0);
  },
);

t.test(
  "an address of the vendor's that is not a file's is judged by its bucket or host, whatever its ending",
  async (t) => {
    const files = (fileUri: string) => named(gemini, { contents: [{ parts: [{ fileData: { fileUri } }] }] });
    for (const [address, id] of [
      ["https://storage.googleapis.com/theirs/abc", "gs://theirs"],
      ["https://storage.googleapis.com/mine/../theirs/abc", "gs://theirs"],
      ["https://mine.storage.googleapis.com/files/abc", "gs://mine"],
      ["https://commondatastorage.googleapis.com/theirs/abc", "gs://theirs"],
      ["https://storage.googleapis.com/storage/v1/b/theirs/o/abc?alt=media", "gs://storage"],
      ["https://us-storage.googleapis.com/mine/abc", "gs://us-storage.googleapis.com"],
      ["https://www.googleapis.com/drive/v3/files/abc?alt=media", "gs://www.googleapis.com"],
      ["https://googleapis.com/v1beta/files/abc", "gs://googleapis.com"],
      ["https://x.generativelanguage.googleapis.com/v1beta/files/abc", "gs://x.generativelanguage.googleapis.com"],
      ["https://generativelanguage.googleapis.com/v1beta/others/abc", "gs://generativelanguage.googleapis.com"],
      ["https://generativelanguage.googleapis.com/download/v1beta/files/abc:download?alt=media", "abc"],
      ["https://europe-west4-aiplatform.googleapis.com/v1/projects/p/locations/l/cachedContents/12", "12"],
    ] as const)
      t.same(files(address), [`contents.0.parts.0.fileData.fileUri=${id}`], address);
    for (const address of [
      "https://storage.googleapis.com.example.com/theirs/abc",
      "https://notgoogleapis.com/v1beta/files/abc",
      "https://example.com/?https://storage.googleapis.com/theirs/abc",
      "https://storage.googleapis.com@example.com/theirs/abc",
    ])
      t.same(files(address), [], address);
    t.throws(() => files("https://storage.googleapis.com//theirs/abc"), { code: "invalid_field" });
  },
);

t.test("Chat names objects of a bucket where an address or a file's id is expected", async (t) => {
  const said = (part: object | string) => named(chat, { messages: [{ role: "user", content: [part] }] });
  for (const [part, at] of [
    [{ type: "image_url", image_url: { url: "gs://theirs/x.png" } }, "image_url.url"],
    [{ type: "image_url", image_url: "GS://theirs/x.png" }, "image_url"],
    [{ type: "file", file: { file_data: "gs://theirs/x.pdf" } }, "file.file_data"],
    [{ type: "file", file: { file_id: "gs://theirs/x.pdf" } }, "file.file_id"],
    [{ type: "input_audio", input_audio: { data: "gs://theirs/x.wav" } }, "input_audio.data"],
  ] as const)
    t.same(said(part), [`messages.0.content.0.${at}=gs://theirs`]);
  const escaped = (text: string) => named(chat, `{"messages":[{"content":[{"image_url":{"url":"${text}"}}]}]}`);
  for (const text of ["\\u0067s://theirs/x", "g\\u0073://theirs/x", "gs\\u003a//theirs/x", "gs:\\/\\/theirs/x"])
    t.same(escaped(text), ["messages.0.content.0.image_url.url=gs://theirs"], text);
  for (const part of [
    { type: "text", text: "gs://theirs/x" },
    { type: "image_url", image_url: { url: "data:image/png;base64,aGk=" } },
    { type: "image_url", image_url: { url: "https://example.com/gs://x" } },
    { type: "image_url", image_url: { url: "" } },
  ])
    t.same(said(part), []);
  t.same(said("gs://theirs"), []);
});

t.test("an object in a bucket is judged by the bucket", async (t) => {
  const stored = (fileUri: string) => named(gemini, { contents: [{ parts: [{ fileData: { fileUri } }] }] });
  for (const address of ["gs://my-bucket/a b/c.pdf", " GS://my-bucket/x", "gs://my-bucket"])
    t.same(stored(address), ["contents.0.parts.0.fileData.fileUri=gs://my-bucket"], address);
  for (const address of [
    "gs:",
    "gs://",
    "gs:my-bucket/x",
    "gs:///my-bucket/x",
    "gs://a@my-bucket/x",
    "gs:\\\\my-bucket/x",
  ])
    t.throws(() => stored(address), { code: "invalid_field" }, address);
  t.throws(() => named(responses, { conversation: "gs://my-bucket" }), { code: "invalid_field" });
});

t.test("an object that names two ids is refused, for parsers differ in which they read", async (t) => {
  const text = '{"input":[{"file_id":"file-theirs","file_id":"file-mine"}]}';
  t.throws(() => named(responses, text), { code: "invalid_json" });
});

t.test("an invalid id is the request's error, and its place is named", async (t) => {
  for (const id of ["../files", "a b", "x?y", "ä", "x".repeat(129)])
    t.throws(() => named(responses, { previous_response_id: id }), { code: "invalid_field" });
});

t.test("a reference without a type is found however it is written, and wherever its bytes are split", async (t) => {
  const { objects } = responses as Required<Protocol>;
  const found = (pieces: Buffer[]) =>
    new ReferenceFinder(objects).findInBody(new Body(pieces, "json")).map(({ id }) => id);
  const written = [
    '{"input":[{"id" : "rs_1"}]}',
    `{"input":[{"id"${" ".repeat(3000)}:"rs_1"}]}`,
    `{"input":[{"id":"rs_1"${"\n".repeat(20)}}]}`,
    '{"input":[{"id":"x","type":"web_search"},{"\\u0069d":"rs_1"}]}',
    '{"input":[{"type":null,"id":"rs_1" , "role" : null }]}',
  ];
  for (const text of written) t.ok(found([Buffer.from(text)]).includes("rs_1"), text.slice(0, 60));
  const bytes = Buffer.from('{"input":[{"id":"x","type":"web_search"},{"id":"rs_1","type":null}]}');
  for (let at = 1; at < bytes.length; at++)
    t.same(found([bytes.subarray(0, at), bytes.subarray(at)]), ["rs_1"], `split at ${at}`);
});

t.test("more objects than the lookup limit are refused", async (t) => {
  const naming = (count: number) => ({
    input: Array.from({ length: count }, (_, i) => ({ type: "item_reference", id: `i${i}` })),
  });
  t.equal(named(responses, naming(5000)).length, 5000);
  t.throws(() => named(responses, naming(5001)), {
    code: "invalid_field",
    message: "The request names more than 5000 objects.",
    param: "input.5000.id",
  });
});

t.test("the members are read once, however often a configuration is", async (t) => {
  const members = responses.objects as NonNullable<Protocol["objects"]>;
  t.equal(referenceFinder(members), referenceFinder(members));
  t.not(referenceFinder({ ...members }), referenceFinder(members));
});

t.test("a tuned model that a body starts from is one that a key created; others belong to everybody", async (t) => {
  const finder = new ReferenceFinder((gemini.vendorObjects as NonNullable<Protocol["vendorObjects"]>).bodyMembers);
  const ids = (body: object) => finder.findInJson(body).map(({ id }) => id);
  for (const name of ["model", "baseModel", "source_model"]) {
    t.same(ids({ batch: { [name]: "tunedModels/theirs" } }), ["theirs"], name);
    t.same(ids({ batch: { [name]: "models/gemini" } }), [], name);
    t.same(ids({ batch: { [name]: "gemini" } }), [], name);
  }
  t.same(ids({ tunedModelSource: { tunedModel: "tunedModels/theirs", baseModel: "models/gemini" } }), ["theirs"]);
});

t.test("the time for a long id grows no faster than the id", async (t) => {
  const starts = ["", "files/", "projects/", "projects/p/locations/", "gs://", "bq:", "https://", "tunedModels/", "/"];
  const parts = [" ", "/", "a", ".", ":", "=", "-", "files/", "a.", "/ ", "\u00a0", "tunedModels ", "projects/"];
  for (const { objects, vendorObjects } of [anthropic, chat, gemini, responses])
    for (const id of new Set([objects?.id, vendorObjects?.bodyMembers.id]))
      if (id)
        for (const text of starts.flatMap((start) => hostileTexts(parts, start, "x")))
          t.doesNotThrow(() => runLinear(() => id(text, "model")), text.slice(0, 40));
});

t.test("white space around the name of a Google resource is ignored", async (t) => {
  for (const id of ["files/abc", " files/abc \n", "projects/p/locations/l/files/abc\t"])
    t.same(named(chat, { messages: [{ role: "user", content: [{ type: "file", file: { file_id: id } }] }] }), [
      "messages.0.content.0.file.file_id=abc",
    ]);
});

t.test("the time for many objects below a long name grows no faster than their number", async (t) => {
  const finder = new ReferenceFinder((gemini.vendorObjects as VendorObjects).bodyMembers);
  const files = (text: string) => ({
    ["N.".repeat(500_000)]: Array.from({ length: 5000 }, () => ({ file_uri: text })),
  });
  t.doesNotThrow(() => runLinear(() => finder.findInJson(files("files/a"))));
  t.match(
    finder.findInJson({ inputConfig: { ["N".repeat(1000)]: [{ fileName: "files/b" }, { fileName: "files/c" }] } }),
    [
      { id: "b", isRun: true },
      { id: "c", isRun: true },
    ],
  );
});

t.test("an object cannot be hidden by a name that V8 takes for one it has read before", async (t) => {
  const part = (name: string) =>
    `{"input":[{"role":"user","content":[{"hidden":1,"${name}":"file-theirs","type":"input_file"}]}]}`;
  JSON.parse(part("file_i\\\\"));
  t.same(named(responses, part("file_i\\u0064")), ["input.0.content.0.file_id=file-theirs"]);
});
