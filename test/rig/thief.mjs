/** Preloaded by processes of `npm start`: the first that would listen on the port of the setting THIEF_TAKES finds it taken. */
import { existsSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";

const { THIEF_TAKES: setting = "", THIEF_MARK: mark = "" } = process.env;
const port = Number(process.env[setting] ?? 0);
const listens =
  process.argv.includes("serve") && process.argv.at(-1)?.includes(setting === "PORT" ? "api" : "inbound");
if (listens && port > 0 && !existsSync(mark)) {
  writeFileSync(mark, String(port));
  await new Promise((resolve) => createServer().listen(port, "127.0.0.1", resolve));
}
