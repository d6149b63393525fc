/**
 * A client of a cluster is let go of at any moment. A command that needs no Redis may be done before its
 * client knows the cluster, in the middle of whatever the client asks, and ends then, too.
 */
import { once } from "node:events";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { connected, connectRedis } from "../../src/redis/connect.ts";
import { commandLine } from "../rig/command.ts";
import { onCommand, text } from "../rig/resp.ts";

/** Of these answers, the one that comes when the client has said that it leaves; the others come at once. */
let late: "cluster\r\n$4\r\ninfo" | "slots" | "none";
let server: Server;
/** How often somebody wanted to know which node has which slots. */
let looks: number;
const sockets = new Set<Socket>();

beforeEach(async () => {
  looks = 0;
  server = createServer({ allowHalfOpen: true }, serve);
  await once(server.listen(0, "127.0.0.1"), "listening");
});
afterEach(async () => {
  for (const socket of sockets) socket.destroy();
  await once(server.close(), "close");
});

test.each(["cluster\r\n$4\r\ninfo", "slots", "none"] as const)("with %j under way", async (which) => {
  late = which;
  const { postrider } = commandLine({ redisUrl: `redis-cluster://127.0.0.1:${port()}` });
  expect(await postrider("workspace", "list")).toMatchObject({ status: 0, err: "" });
});

/** As BullMQ does when it heard nothing for too long. */
test("a client that ended and connects again goes on looking at the slots", async () => {
  late = "none";
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  const client = connectRedis(`redis-cluster://127.0.0.1:${port()}`, "worker", 2_000);
  try {
    await connected(client);
    client.disconnect();
    await once(client, "end");
    await client.connect();
    const before = looks;
    vi.advanceTimersByTime(5_000);
    await expect.poll(() => looks).toBe(before + 1);
  } finally {
    client.disconnect();
    vi.useRealTimers();
  }
});

const port = () => (server.address() as AddressInfo).port;

function serve(socket: Socket): void {
  sockets.add(socket);
  const waiting: string[] = [];
  socket.on("error", () => {}).on("close", () => sockets.delete(socket));
  socket.on("end", () => socket.end(waiting.join("")));
  onCommand(socket, (command) => {
    if (late !== "none" && command.includes(late)) waiting.push(answerTo(command));
    else socket.write(answerTo(command));
  });
}

function answerTo(command: string): string {
  if (command.includes("slots")) {
    looks++;
    return `*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n${text("127.0.0.1")}:${port()}\r\n`;
  }
  if (command.includes("cluster")) return text("cluster_state:ok\r\n");
  return command.includes("info") ? text("redis_version:7.0.0\r\n") : "+OK\r\n";
}
