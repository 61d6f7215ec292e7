import { readFileSync } from "node:fs";
import t from "tap";

const FOLDER = new URL("../../../plugins/protocols/", import.meta.url);

/** The pattern that a file declares as a constant. */
const patternIn = (file: string, name: string): string | undefined =>
  new RegExp(`^const ${name} =\\s+(/.+/i?);$`, "m").exec(readFileSync(new URL(file, FOLDER), "utf8"))?.[1];

t.test(
  "two protocols, which cannot import each other, know the same models and hosts to need reasoning back",
  async (t) => {
    const [chat, messages] = ["openai-chat/support.models.ts", "anthropic-messages/support.thinking.ts"] as const;
    const models = patternIn(chat, "NEEDS_REASONING");
    t.match(models, /deepseek/);
    t.equal(patternIn(messages, "NEEDS_THINKING"), models);
    for (const name of ["DEEPSEEK_HOST", "MOONSHOT_HOST"]) {
      const host = patternIn("openai/request.encode.ts", name);
      t.match(host, /\(\?:\^/);
      t.equal(patternIn(messages, name), host);
    }
  },
);
