/** The protocol of Redis, as a server of a test's own speaks it. */
import type { Socket } from "node:net";

const COMMAND = /^\*\d+\r\n(?:\$\d+\r\n[^\r]*\r\n)+?(?=\*|$)/;

/** Calls back with each command that arrives, in lower case. */
export function onCommand(socket: Socket, obey: (command: string) => void): void {
  let heard = "";
  socket.setEncoding("utf8").on("data", (text: string) => {
    heard += text;
    for (let found = COMMAND.exec(heard); found; found = COMMAND.exec(heard)) {
      heard = heard.slice(found[0].length);
      obey(found[0].toLowerCase());
    }
  });
}

/** A text as an answer. */
export const text = (said: string): string => `$${Buffer.byteLength(said)}\r\n${said}\r\n`;

/** A list of texts. */
export const bulk = (...words: readonly string[]): string =>
  `*${words.length}\r\n${words.map(text).join("")}`;
