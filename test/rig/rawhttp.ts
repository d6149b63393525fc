/** HTTP written byte by byte, for what no client would write. */
import { connect, type Socket } from "node:net";

export type Heard = {
  /** Everything that came until the server closed, or until enough had come. */
  text: string;
  /** Of the answers, in order. */
  statuses: number[];
  isClosed: boolean;
};

/** Ends when the server closes the connection, or as soon as `answers` answers have come whole. */
export function say(url: string, text: string, answers = Number.POSITIVE_INFINITY): Promise<Heard> {
  const socket = open(url);
  const heard = hear(socket, answers);
  socket.write(Buffer.from(text, "latin1"));
  return heard;
}

export function open(url: string): Socket {
  const { hostname, port } = new URL(url);
  return connect({ host: hostname, port: Number(port), noDelay: true });
}

export function hear(socket: Socket, answers = Number.POSITIVE_INFINITY): Promise<Heard> {
  let text = "";
  return new Promise((resolve) => {
    const over = (isClosed: boolean) => {
      resolve({ text, statuses: statusesIn(text), isClosed });
      socket.destroy();
    };
    socket.on("error", () => {}); // a reset is a close
    socket.on("close", () => over(true));
    socket.on("data", (bytes) => {
      text += bytes.toString("latin1");
      if (wholeAnswersIn(text) >= answers) over(false);
    });
  });
}

function statusesIn(text: string): number[] {
  return [...text.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => Number(status));
}

function wholeAnswersIn(text: string): number {
  let count = 0;
  let rest = text;
  for (;;) {
    const end = rest.indexOf("\r\n\r\n");
    if (end < 0) return count;
    const length = /^content-length: *(\d+)/im.exec(rest.slice(0, end));
    const last = length ? end + 4 + Number(length[1]) : rest.indexOf("\r\n0\r\n\r\n", end) + 7;
    if (last < end || rest.length < last) return count;
    count++;
    rest = rest.slice(last);
  }
}
