/**
 * Sends what a hostile workspace sends, from a process of its own: to read and send a body of 38 MB takes a while, which
 * must not count for the neighbour whose waits the bench measures. `POST /` with the requests (`file`: the body) and how
 * many may be under way sends them once each, or for so many milliseconds, and answers when all are over. Plain
 * JavaScript, so that it starts at once.
 */
import { createReadStream, statSync } from "node:fs";
import { createServer, request } from "node:http";

/** Whatever it is answered; a connection that is closed is an answer, too. */
function fire({ url, key, method, file }) {
  return new Promise((resolve) => {
    const headers = {
      authorization: `Bearer ${key}`,
      "content-type": "application/json",
      "content-length": statSync(file).size,
    };
    const sent = request(url, { method, headers }, (answer) => answer.resume().once("close", resolve));
    sent.once("error", resolve);
    createReadStream(file).pipe(sent);
  });
}

async function attack({ requests, underWay, ms }) {
  const until = performance.now() + ms;
  let next = 0;
  const goesOn = () => (ms === 0 ? next < requests.length : performance.now() < until);
  const one = async () => {
    while (goesOn()) await fire(requests[next++ % requests.length]);
  };
  await Promise.all(Array.from({ length: underWay }, one));
  return { sent: next };
}

const server = createServer(async (asked, answer) => {
  const chunks = [];
  for await (const chunk of asked) chunks.push(chunk);
  answer.end(JSON.stringify(await attack(JSON.parse(Buffer.concat(chunks).toString()))));
});
server.requestTimeout = 0;
server.listen(Number(process.env.PORT), "127.0.0.1", () => process.send({ kind: "ready" }));
