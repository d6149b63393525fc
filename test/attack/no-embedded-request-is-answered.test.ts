/**
 * Requests about whose end two readers could disagree, each with another request hidden behind it. A proxy in
 * front may have taken the hidden one for a body: it must never be answered. Each is tried where the server
 * answers at once (an open page, a missing key) and where it answers later.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { say } from "../rig/rawhttp.ts";
import { mail, type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

const HIDDEN = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n";
const BODY = "hello";

let api: TestApi;
let ws: TestWorkspace;
beforeAll(async () => {
  api = await testApi();
  ws = await api.workspace();
});
afterAll(() => api.stop());

const chunked = (body: string) => `Transfer-Encoding: chunked\r\n\r\n${body}`;

/** What follows the request line and the Host. These are no requests at all. */
const REFUSED: Record<string, string> = {
  "no length before a length": `Content-Length: 0\r\nContent-Length: ${HIDDEN.length}\r\n\r\n${HIDDEN}`,
  "a length before no length": `Content-Length: ${HIDDEN.length}\r\nContent-Length: 0\r\n\r\n${HIDDEN}`,
  "two lengths in two cases": `content-length: 5\r\nCONTENT-LENGTH: 6\r\n\r\n${BODY}${HIDDEN}`,
  "the same length twice": `Content-Length: 5\r\nContent-Length: 5\r\n\r\n${BODY}${HIDDEN}`,
  "three lengths": `Content-Length: 5\r\nX: y\r\nContent-Length: 5\r\nContent-Length: 0\r\n\r\n${BODY}${HIDDEN}`,
  "an empty length": `Content-Length: \r\n\r\n${HIDDEN}`,
  "an empty length before another": `Content-Length:\r\nContent-Length: ${HIDDEN.length}\r\n\r\n${HIDDEN}`,
  "a list of lengths": `Content-Length: 5, 5\r\n\r\n${BODY}${HIDDEN}`,
  "a length with a plus": `Content-Length: +5\r\n\r\n${BODY}${HIDDEN}`,
  "a negative length": `Content-Length: -5\r\n\r\n${BODY}${HIDDEN}`,
  "a hexadecimal length": `Content-Length: 0x5\r\n\r\n${BODY}${HIDDEN}`,
  "a fraction as length": `Content-Length: 5.0\r\n\r\n${BODY}${HIDDEN}`,
  "an exponent as length": `Content-Length: 5e0\r\n\r\n${BODY}${HIDDEN}`,
  "a length with a blank inside": `Content-Length: 5 5\r\n\r\n${BODY}${HIDDEN}`,
  "a length beyond 64 bits": `Content-Length: 18446744073709551621\r\n\r\n${BODY}${HIDDEN}`,
  "a length of many digits": `Content-Length: 00000000000000000005\r\n\r\n${BODY}${HIDDEN}`,
  "a blank before the colon of a length": `Content-Length : 5\r\n\r\n${BODY}${HIDDEN}`,
  "a length in a folded line": `Content-Length:\r\n 5\r\n\r\n${BODY}${HIDDEN}`,
  "a length and chunks": `Content-Length: 40\r\n${chunked(`0\r\n\r\n${HIDDEN}`)}`,
  "chunks and a length": `Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n${HIDDEN}`,
  "an encoding that only ends like chunked": `Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n${HIDDEN}`,
  "an encoding that is none": `Transfer-Encoding: identity\r\n\r\n0\r\n\r\n${HIDDEN}`,
  "an empty encoding": `Transfer-Encoding:\r\n\r\n0\r\n\r\n${HIDDEN}`,
  "an encoding before chunked": `Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n${HIDDEN}`,
  "chunked before an encoding": `Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n${HIDDEN}`,
  "chunked in quotes": `Transfer-Encoding: "chunked"\r\n\r\n0\r\n\r\n${HIDDEN}`,
  "chunked twice": `Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${HIDDEN}`,
  "chunked, then none": `Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n${HIDDEN}`,
  "a blank before the colon of an encoding": `Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n${HIDDEN}`,
  "an encoding after a vertical tab": `Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n${HIDDEN}`,
  "an encoding in a folded line": `Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n${HIDDEN}`,
  "a folded line": `X-A: b\r\n c: d\r\nContent-Length: 5\r\n\r\n${BODY}${HIDDEN}`,
  "a line that begins with a blank": ` X-A: b\r\nContent-Length: 5\r\n\r\n${BODY}${HIDDEN}`,
  "a bare LF between headers": `X-A: b\nContent-Length: 5\r\n\r\n${BODY}${HIDDEN}`,
  "bare LFs at the end": `Content-Length: 5\n\n${BODY}${HIDDEN}`,
  "a bare CR between headers": `X-A: b\rContent-Length: 5\r\n\r\n${BODY}${HIDDEN}`,
  "a header without a colon": `Content-Length\r\n\r\n${HIDDEN}`,
  "a control character in a name": `Content-Le\x01ngth: 5\r\n\r\n${BODY}${HIDDEN}`,
  "a NUL in a value": `X-A: b\0\r\nContent-Length: 5\r\n\r\n${BODY}${HIDDEN}`,
  "another Host": `Host: y\r\nContent-Length: 5\r\n\r\n${BODY}${HIDDEN}`,
};

/** Their bodies are broken, or end early: the request may be answered, and is the last of its connection. */
const LAST: Record<string, string> = {
  "a chunk whose size is no number": chunked(`ZZ\r\n${BODY}\r\n0\r\n\r\n${HIDDEN}`),
  "a chunk size with a prefix": chunked(`0x5\r\n${BODY}\r\n0\r\n\r\n${HIDDEN}`),
  "a negative chunk size": chunked(`-5\r\n${BODY}\r\n0\r\n\r\n${HIDDEN}`),
  "a chunk size with a plus": chunked(`+5\r\n${BODY}\r\n0\r\n\r\n${HIDDEN}`),
  "a blank after a chunk size": chunked(`5 \r\n${BODY}\r\n0\r\n\r\n${HIDDEN}`),
  "a blank before a chunk size": chunked(` 5\r\n${BODY}\r\n0\r\n\r\n${HIDDEN}`),
  "no chunk size": chunked(`\r\n${BODY}\r\n0\r\n\r\n${HIDDEN}`),
  "no chunk size at all": chunked(`\r\n${HIDDEN}`),
  "a chunk size beyond 64 bits": chunked(`10000000000000005\r\n${BODY}\r\n0\r\n\r\n${HIDDEN}`),
  "a chunk size of all bits": chunked(`FFFFFFFFFFFFFFFF\r\n${BODY}\r\n0\r\n\r\n${HIDDEN}`),
  "a chunk size beyond 32 bits": chunked(`100000005\r\n${BODY}\r\n0\r\n\r\n${HIDDEN}`),
  "a chunk size with the highest bit": chunked(`8000000000000005\r\n${BODY}\r\n0\r\n\r\n${HIDDEN}`),
  "a chunk extension": chunked(`5;a=b\r\n${BODY}\r\n0\r\n\r\n${HIDDEN}`),
  "a chunk extension with a bare LF": chunked(`5;a\n${BODY}\r\n0\r\n\r\n${HIDDEN}`),
  "chunks with bare LFs": chunked(`5\n${BODY}\n0\n\nX${HIDDEN}`),
  "a chunk longer than its size": chunked(`3\r\n${BODY}\r\n0\r\n\r\n${HIDDEN}`),
  "a chunk without an end": chunked(`5\r\n${BODY}XX0\r\n\r\n${HIDDEN}`),
  "a request among the trailers": chunked(`5\r\n${BODY}\r\n0\r\nXX${HIDDEN}`),
  "a request behind trailers": chunked(`5\r\n${BODY}\r\n0\r\nX: y\r\n\r\n${HIDDEN}`),
  "a request behind whole chunks": chunked(`5\r\n${BODY}\r\n0\r\n\r\n${HIDDEN}`),
  "a request behind chunks in capitals": `Transfer-Encoding: CHUNKED\r\n\r\n0\r\n\r\n${HIDDEN}`,
  "a request behind the last one": `Connection: close\r\nContent-Length: 5\r\n\r\n${BODY}${HIDDEN}`,
  "a length behind a header without a name": `: a\r\nContent-Length: 5\r\n\r\n${BODY}${HIDDEN}`,
  "an encoding behind a header without a name": `: a\r\n${chunked(`0\r\n\r\n${HIDDEN}`)}`,
  "a request behind the last one of a list": `Connection: x, Close\r\n\r\n${HIDDEN}`,
};

/** Nothing that begins so is HTTP/1.1 with an Host and a path. */
const NO_REQUEST: Record<string, string> = {
  "HTTP/1.0": `POST /healthz HTTP/1.0\r\nHost: x\r\nContent-Length: 5\r\n\r\n${BODY}${HIDDEN}`,
  "HTTP/1.2": `POST /healthz HTTP/1.2\r\nHost: x\r\n\r\n${HIDDEN}`,
  "HTTP/0.9": `GET /healthz\r\n\r\n${HIDDEN}`,
  "HTTP/2": `PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n${HIDDEN}`,
  "no Host": `GET /healthz HTTP/1.1\r\n\r\n${HIDDEN}`,
  "a whole url": `GET http://x/healthz HTTP/1.1\r\nHost: x\r\n\r\n${HIDDEN}`,
  "two blanks": `GET  /healthz HTTP/1.1\r\nHost: x\r\n\r\n${HIDDEN}`,
  "a tab": `GET\t/healthz HTTP/1.1\r\nHost: x\r\n\r\n${HIDDEN}`,
  "bare LFs": `GET /healthz HTTP/1.1\nHost: x\n\n${HIDDEN}`,
  "a control character in the method": `G\x01T /healthz HTTP/1.1\r\nHost: x\r\n\r\n${HIDDEN}`,
  "101 headers": `GET /healthz HTTP/1.1\r\nHost: x\r\n${"X-A: b\r\n".repeat(101)}\r\n${HIDDEN}`,
  "17 KB of headers": `GET /healthz HTTP/1.1\r\nHost: x\r\nX-A: ${"b".repeat(17_000)}\r\n\r\n${HIDDEN}`,
};

const outer = () => ({
  "an open page": "POST /healthz HTTP/1.1\r\nHost: x\r\n",
  nobody: "POST /api/v1/emails HTTP/1.1\r\nHost: x\r\n",
  "a caller": `POST /api/v1/emails HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${ws.client.key}\r\nContent-Type: application/json\r\n`,
});

test("what can be read in two ways is refused, and the connection closed", async () => {
  const all = Object.entries(outer()).flatMap(([who, head]) =>
    Object.entries(REFUSED).map(async ([what, rest]) => {
      const heard = await say(api.url, head + rest);
      expect(heard.isClosed, `${what}, by ${who}`).toBe(true);
      expect(heard.statuses.length, `${what}, by ${who}: ${heard.text}`).toBeLessThanOrEqual(1);
      expect([[], [400], [505]], `${what}, by ${who}`).toContainEqual(heard.statuses);
      expect(heard.text, `${what}, by ${who}`).not.toContain("smuggled");
    }),
  );
  await Promise.all(all);
});

test("what follows chunks or the last request is never a request", async () => {
  const all = Object.entries(outer()).flatMap(([who, head]) =>
    Object.entries(LAST).map(async ([what, rest]) => {
      const heard = await say(api.url, head + rest);
      expect(heard.isClosed, `${what}, by ${who}`).toBe(true);
      expect(heard.statuses.length, `${what}, by ${who}: ${heard.text}`).toBeLessThanOrEqual(1);
      expect(heard.text, `${what}, by ${who}`).not.toContain("smuggled");
    }),
  );
  await Promise.all(all);
});

test("what is no HTTP/1.1 is refused, and the connection closed", async () => {
  const all = Object.entries(NO_REQUEST).map(async ([what, text]) => {
    const heard = await say(api.url, text);
    expect(heard.isClosed, what).toBe(true);
    expect([[], [400], [431], [505]], what).toContainEqual(heard.statuses);
    expect(heard.text, what).not.toContain("smuggled");
  });
  await Promise.all(all);
});

test("chunks as they should be are a body, and their answer is whole", async () => {
  const body = JSON.stringify(mail());
  const head = outer()["a caller"];
  const pieces = [body.slice(0, 7), body.slice(7)].map(
    (piece) => `${piece.length.toString(16)}\r\n${piece}\r\n`,
  );
  const heard = await say(api.url, head + chunked(`${pieces.join("")}0\r\n\r\n`));
  expect(heard.statuses).toEqual([200]);
  expect(heard.text).toMatch(/connection: close/i);
  expect(heard.text).toContain('{"id":');
});

test("a refusal of the gate is our JSON, and says what is wrong", async () => {
  const { text } = await say(
    api.url,
    "POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\n",
  );
  expect(JSON.parse(text.slice(text.indexOf("\r\n\r\n")))).toEqual({
    statusCode: 400,
    name: "validation_error",
    message: "The request has more than one `Content-Length` header.",
  });
});
