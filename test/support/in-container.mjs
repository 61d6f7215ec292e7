// Runs inside of the image: an answer that streams, every file of both sites, and the packages that the plugins may ask for.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [key] = process.argv.slice(-1);
const must = (holds, what) => {
  if (!holds) throw new Error(what);
};

const answer = await fetch("http://127.0.0.1:8080/v1/chat/completions", {
  method: "POST",
  headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
  body: JSON.stringify({ model: "echo", stream: true, messages: [{ role: "user", content: "Hello" }] }),
});
const text = await answer.text();
must(answer.status === 200 && text.includes("[DONE]"), `${answer.status} ${text}`);

for (const site of ["http://127.0.0.1:8080/", "http://127.0.0.1:9090/"]) {
  const page = await (await fetch(site, { headers: { accept: "text/html" } })).text();
  const files = [...page.matchAll(/(?:src|href)="(\/[^"]+)"/g)].map(([, file]) => file);
  must(files.length > 3, `${site} names ${files}`);
  for (const file of files) must((await fetch(new URL(file, site))).ok, file);
}

const { peerDependencies } = JSON.parse(readFileSync("/opt/model-gateway/package.json", "utf8"));
const { resolve } = createRequire("/opt/model-gateway/src/main.ts");
for (const name of Object.keys(peerDependencies)) if (!name.startsWith("@types/")) await import(resolve(name));
