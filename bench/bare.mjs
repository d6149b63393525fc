/**
 * The floor of an API on this stack: uWebSockets.js with nothing behind it, with one EVALSHA as large as admission's,
 * and with that and one select by primary key. Plain JavaScript, so that nothing but the work is measured.
 */

import uWS from "uWebSockets.js";
import { once } from "node:events";
import { Redis } from "ioredis";
import postgres from "postgres";

const redis = new Redis(process.env.REDIS_URL.replace("unix://", ""), { protocol: 2 });
const url = new URL(process.env.DATABASE_URL);
const folder = url.searchParams.get("socket");
url.searchParams.delete("socket");
const sql = postgres(url.href, { max: 6, ...(folder && { path: `${folder}/.s.PGSQL.${url.port}` }) });
const lua = `local a = redis.call('HMGET', KEYS[1], 'a', 'b') local b = redis.call('HMGET', KEYS[2], 'a', 'b')
  local n = redis.call('HINCRBY', KEYS[3], 'n', 1) redis.call('PEXPIRE', KEYS[3], 2000)
  return { 'ok', 'id', '1', '', 'workspace', 'pro', '1', 'key', n, 10, 1, 0 }`;
await once(redis, "ready");
const sha = await redis.script("LOAD", lua);
const admit = () => redis.evalsha(sha, 4, "{bench}:a", "{bench}:b", "{bench}:c", "{bench}:d", "0");
const body = JSON.stringify({
  statusCode: 422,
  name: "invalid_parameter",
  message: "The `id` of an e-mail must be a UUID.",
});
/** The key of a row that is there, so that the select has something to bring. */
let known = null;
const aRow = async () => {
  known ??= (await sql`select workspace_id, id from email limit 1`)[0];
  return known;
};

function serve(path, work) {
  app.get(path, (res) => {
    let isGone = false;
    res.onAborted(() => {
      isGone = true;
    });
    work().then((answer) => {
      if (!isGone)
        res.cork(() =>
          res
            .writeStatus("422 Unprocessable Entity")
            .writeHeader("Content-Type", "application/json")
            .end(answer),
        );
    });
  });
}

const app = uWS.App();
app.get("/bare", (res) => {
  res.cork(() =>
    res.writeStatus("422 Unprocessable Entity").writeHeader("Content-Type", "application/json").end(body),
  );
});
serve("/evalsha", async () => {
  await admit();
  return body;
});
serve("/select", async () => {
  await admit();
  const { workspace_id, id } = await aRow();
  const [row] = await sql`select * from email where workspace_id = ${workspace_id} and id = ${id}`;
  return row ? body : "";
});
app.listen("127.0.0.1", Number(process.env.PORT), 1, () => process.send({ kind: "ready" }));
process.on("SIGTERM", () => process.exit(0));
process.once("disconnect", () => process.exit(0));
