// A provider that discards request bodies, and gives short responses.
import { createServer } from "node:http";

const CHAT =
  '{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}';
const MESSAGE =
  '{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"Hi"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":3,"output_tokens":2}}';
const RESPONSE =
  '{"id":"resp_1","object":"response","status":"completed","model":"m","output":[{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Hi","annotations":[]}]}],"usage":{"input_tokens":3,"output_tokens":2,"total_tokens":5}}';
const GENERATED =
  '{"candidates":[{"content":{"role":"model","parts":[{"text":"Hi"}]},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":2,"totalTokenCount":5}}';

const answer = (path = ""): string => {
  if (path.includes("/messages")) return MESSAGE;
  if (path.includes("/responses")) return RESPONSE;
  if (path.includes(":generate")) return GENERATED;
  return path.includes("/images/") ? '{"created":1,"data":[{"b64_json":"aGk="}]}' : CHAT;
};

createServer((request, reply) => {
  request.on("data", () => {});
  request.on("end", () => reply.writeHead(200, { "content-type": "application/json" }).end(answer(request.url)));
}).listen(Number(process.env["PORT"]), "127.0.0.1");
