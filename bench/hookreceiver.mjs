/**
 * A receiver of webhooks as a process of its own: answers after ANSWER_MS and counts. `GET /` says how many events came,
 * how many of them twice, and how late they were; `DELETE /` begins anew. Plain JavaScript, so that it starts at once.
 */
import { createServer } from "node:http";

const answerMs = Number(process.env.ANSWER_MS ?? 5);
const LAGS_MAX = 2_000_000;
let seen = new Set();
let repeated = 0;
let lags = [];

function take(id, body) {
  if (seen.has(id)) repeated++;
  else {
    seen.add(id);
    if (lags.length < LAGS_MAX) lags.push(Date.now() - Date.parse(JSON.parse(body).created_at));
  }
}

const server = createServer((request, response) => {
  if (request.method === "GET") {
    const sorted = Float64Array.from(lags).sort();
    const at = (share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0;
    response.end(JSON.stringify({ events: seen.size, repeated, p50: at(0.5), p99: at(0.99), most: at(1) }));
    return;
  }
  if (request.method === "DELETE") {
    seen = new Set();
    lags = [];
    repeated = 0;
    response.end();
    return;
  }
  const chunks = [];
  request.on("data", (chunk) => chunks.push(chunk));
  request.on("end", () => {
    take(request.headers["webhook-id"], Buffer.concat(chunks));
    setTimeout(() => response.end("ok"), answerMs);
  });
});
server.keepAliveTimeout = 60_000;
server.listen(Number(process.env.PORT), "127.0.0.1", () => process.send?.({ kind: "ready" }));
process.on("SIGTERM", () => process.exit(0));
