// Starts @portkey-ai/gateway in this process, without its console page.
process.argv.push("--headless", `--port=${process.env["PORT"]}`);
console.clear = () => {};
await import(process.env["PORTKEY"] ?? "");

export {};
