import { spawnSync } from "node:child_process";

const LOADER = new URL("../../src/loader/register.js", import.meta.url).href;

/**
 * Runs a script in a process that is killed as soon as a file has been made by a function of `node:fs`. A written or copied file
 * is empty then.
 * @param call name of the function
 * @param name part of the file's name
 * @param module imported as `module`
 * @param script JavaScript that uses it
 * @returns what the process wrote to stderr, and whether it was killed
 */
export function runKilledAfter(call: string, name: string, module: URL, script: string) {
  const program = `
    import fs from "node:fs";
    import { syncBuiltinESMExports } from "node:module";
    const module = await import(${JSON.stringify(module.href)});
    const { ${call}: real, writeFileSync: write } = fs;
    fs.${call} = (...args) => {
      const made = args[${call === "writeFileSync" ? 0 : 1}];
      if (!String(made).includes(${JSON.stringify(name)})) return real(...args);
      ${/^(?:write|copy)/.test(call) ? 'write(made, "")' : "real(...args)"};
      process.kill(process.pid, "SIGKILL");
    };
    syncBuiltinESMExports();
    ${script}
  `;
  const { signal, stderr } = spawnSync(process.execPath, ["--import", LOADER, "--input-type=module", "-e", program], {
    encoding: "utf8",
    timeout: 60_000,
  });
  return { killed: signal === "SIGKILL", stderr };
}
