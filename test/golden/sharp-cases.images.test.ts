/** Sharp cases of pictures that a client asks for, between protocols that each have other words for it. */

import t from "tap";
import type { JsonObject } from "../../src/wire/values.ts";
import { at, listAt, PLAIN, refusalOf, responseOf, send } from "./sharp-cases.ts";

const PICTURE = "iVBORw0KGgo=";

const gemini = (generationConfig: JsonObject) => ({ ...PLAIN.gemini, generationConfig });

t.test("an image is requested between Gemini and Chat, with its aspect ratio and size", async (t) => {
  const config = { responseModalities: ["TEXT", "IMAGE"], imageConfig: { aspectRatio: "16:9", imageSize: "2K" } };
  const asked = send("gemini", gemini(config), "openai-chat");
  t.match(asked.body, { modalities: ["text", "image"], image_config: { aspect_ratio: "16:9", image_size: "2K" } });
  t.strictSame([asked.dropped, asked.notices], [[], []]);
  const url = `data:image/png;base64,${PICTURE}`;
  const message = { role: "assistant", content: null, images: [{ type: "image_url", image_url: { url } }] };
  t.match(
    at(asked.whole({ id: "1", model: "m", choices: [{ index: 0, finish_reason: "stop", message }] }), "candidates.0"),
    {
      content: { parts: [{ inlineData: { mimeType: "image/png", data: PICTURE } }] },
    },
  );
  const chat = {
    ...PLAIN["openai-chat"],
    modalities: ["image"],
    image_config: { aspect_ratio: "1:1", image_size: "4K" },
  };
  const back = send("openai-chat", chat, "gemini");
  t.match(back.body["generationConfig"], {
    responseModalities: ["IMAGE"],
    imageConfig: { aspectRatio: "1:1", imageSize: "4K" },
  });
  t.strictSame([back.dropped, back.notices], [[], []]);
  const more = send("openai-chat", { ...chat, image_config: { quality: "high", aspect_ratio: "1:1" } }, "gemini");
  t.strictSame(more.dropped, ["image_config.quality"]);
  const people = { imageConfig: { aspectRatio: "1:1", personGeneration: "ALLOW_NONE" } };
  const without = send("gemini", gemini(people), "openai-chat");
  t.strictSame(without.dropped, ["generationConfig.imageConfig.personGeneration"]);
  t.match(without.body, { image_config: { aspect_ratio: "1:1" } });
  const listed = { responseFormat: [{ text: {} }, { image: { aspectRatio: "ASPECT_RATIO_ONE_BY_ONE" } }] };
  const outputs = send("gemini", gemini(listed), "openai-chat");
  t.strictSame(outputs.body["modalities"], ["text", "image"]);
  t.strictSame(outputs.dropped, ["generationConfig.responseFormat.1.image.aspectRatio"]);
});

t.test("Responses draws with a tool, which must be called where no text is requested", async (t) => {
  const only = send(
    "gemini",
    gemini({ responseModalities: ["IMAGE"], imageConfig: { aspectRatio: "2:3", imageSize: "1K" } }),
    "openai-responses",
  );
  t.strictSame(only.body["tools"], [{ type: "image_generation", size: "1024x1536" }]);
  t.strictSame(only.body["tool_choice"], { type: "image_generation" });
  t.strictSame([only.dropped, only.notices], [[], []]);
  const drawn = { type: "image_generation_call", id: "ig_1", status: "completed", result: PICTURE };
  t.match(at(only.whole(responseOf([drawn])), "candidates.0.content.parts"), [{ inlineData: { data: PICTURE } }]);
  const chat = {
    ...PLAIN["openai-chat"],
    modalities: ["text", "image"],
    image_config: { aspect_ratio: "16:9", image_size: "4K" },
    tools: [{ type: "function", function: { name: "f" } }],
  };
  const offered = send("openai-chat", chat, "openai-responses");
  t.match(listAt(offered.body, "tools"), [{ name: "f" }, { type: "image_generation", size: undefined }]);
  t.equal(offered.body["tool_choice"], undefined);
  t.strictSame(offered.dropped, ["image_config.aspect_ratio", "image_config.image_size"]);
  t.match(refusalOf("openai-chat", chat, "openai-responses", { strict: true }), { param: "image_config.aspect_ratio" });
});

t.test("the image tool, alone and required, is a request for an image", async (t) => {
  const tool = { type: "image_generation", size: "1536x1024", quality: "high", background: "auto" };
  for (const tool_choice of [{ type: "image_generation" }, "required"]) {
    const asked = { ...PLAIN["openai-responses"], tools: [tool], tool_choice };
    const google = send("openai-responses", asked, "gemini");
    t.match(google.body["generationConfig"], { responseModalities: ["IMAGE"], imageConfig: { aspectRatio: "3:2" } });
    t.notOk(google.body["tools"] ?? google.body["toolConfig"]);
    t.strictSame(google.dropped, ["tools.0.quality"]);
    const chat = send("openai-responses", asked, "openai-chat");
    t.match(chat.body, { modalities: ["image"], image_config: { aspect_ratio: "3:2" } });
    t.notOk(chat.body["tools"] ?? chat.body["tool_choice"]);
    t.match(refusalOf("openai-responses", asked, "anthropic-messages"), { status: 400, param: "tools.0" });
    t.match(refusalOf("openai-responses", asked, "gemini", { strict: true }), { param: "tools.0.quality" });
  }
  const drawn = { type: "image_generation_call", id: "ig_1", status: "completed", result: PICTURE };
  const again = { tools: [{ type: "image_generation" }], input: [drawn, { role: "user", content: "Make it blue" }] };
  const google = send("openai-responses", again, "gemini");
  t.same(at(google.body, "generationConfig.responseModalities"), ["TEXT", "IMAGE"]);
  t.match(at(google.body, "contents.0.parts.0"), { inlineData: { data: PICTURE } });
  t.strictSame(google.dropped, []);
  const sized = { ...PLAIN["openai-responses"], tools: [{ ...tool, size: "2048x2048" }], tool_choice: "required" };
  t.strictSame(send("openai-responses", sized, "gemini").dropped, ["tools.0.size", "tools.0.quality"]);
  const offered = send("openai-responses", { ...PLAIN["openai-responses"], tools: [tool] }, "gemini");
  t.strictSame(
    offered.dropped,
    ["tools.0"],
    "if only offered, it is omitted: text models answer no request for an image",
  );
  t.notOk(offered.body["generationConfig"]);
});

t.test("Claude generates no images", async (t) => {
  const config = gemini({ responseModalities: ["IMAGE"] });
  t.match(refusalOf("gemini", config, "anthropic-messages"), { param: "generationConfig.responseModalities" });
  const chat = { ...PLAIN["openai-chat"], image_config: { aspect_ratio: "1:1" } };
  t.match(refusalOf("openai-chat", chat, "anthropic-messages"), { param: "image_config" });
});
