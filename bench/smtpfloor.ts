/**
 * The floor of sending: finished messages over kept connections with everything pipelined that SMTP allows
 * (RFC 2920), the next envelope in the same write as the end of the message before. No queue, no composing,
 * no settling.
 */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { LOOP_WARMUP_SECONDS } from "./load.ts";

const CONNECTIONS = 20;

/** Messages per second. */
export async function smtpFloor(port: number, message: Buffer, seconds: number): Promise<number> {
  await sendFor(port, message, LOOP_WARMUP_SECONDS);
  return sendFor(port, message, seconds);
}

async function sendFor(port: number, message: Buffer, seconds: number): Promise<number> {
  const envelope = "MAIL FROM:<orders@example.com>\r\nRCPT TO:<user@example.net>\r\nDATA\r\n";
  const began = performance.now();
  const deadline = began + seconds * 1000;
  const counts = await Promise.all(
    Array.from({ length: CONNECTIONS }, () => converse(port, envelope, message, deadline)),
  );
  const taken = counts.reduce((sum, count) => sum + count, 0);
  return taken / ((performance.now() - began) / 1000);
}

async function converse(port: number, envelope: string, message: Buffer, deadline: number): Promise<number> {
  const socket = connect({ port, host: "127.0.0.1", noDelay: true });
  await once(socket, "connect");
  const next = Buffer.concat([message, Buffer.from(`.\r\n${envelope}`)]);
  const last = Buffer.concat([message, Buffer.from(".\r\nQUIT\r\n")]);
  let taken = 0;
  for await (const line of repliesOf(socket)) {
    if (line.startsWith("220")) socket.write(`EHLO bench.example.com\r\n${envelope}`);
    else if (line.startsWith("354")) {
      socket.write(performance.now() > deadline ? last : next);
      taken++;
    } else if (line.startsWith("221")) break;
    else if (!line.startsWith("250")) throw new Error(`The sink answered ${line}`);
  }
  socket.destroy();
  return taken;
}

/** The last line of each reply. */
async function* repliesOf(socket: Socket): AsyncGenerator<string> {
  let rest = "";
  socket.setEncoding("latin1");
  for await (const text of socket as AsyncIterable<string>) {
    const lines = (rest + text).split("\r\n");
    rest = lines.pop() ?? "";
    for (const line of lines) if (line[3] === " ") yield line;
  }
}
