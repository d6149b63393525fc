/** A plain client of the submission ports: TLS, a login, and a message as it is, byte by byte. */
import { connect, type TLSSocket } from "node:tls";
import { SmtpClient } from "./reports.ts";

/** On the port that speaks TLS from the first byte; greeted, and EHLO said. */
export async function secured(tlsPort: number): Promise<SmtpClient> {
  const socket: TLSSocket = connect({ port: tlsPort, host: "127.0.0.1", rejectUnauthorized: false });
  const client = SmtpClient.over(socket);
  await client.answer();
  await client.say("EHLO client.example");
  return client;
}

export function plainLogin(key: string): string {
  return `AUTH PLAIN ${Buffer.from(`\0anybody\0${key}`).toString("base64")}`;
}

export async function loggedIn(tlsPort: number, key: string): Promise<SmtpClient> {
  const client = await secured(tlsPort);
  const answer = await client.say(plainLogin(key));
  if (!answer.startsWith("235")) throw new Error(`the login was answered ${answer}`);
  return client;
}

/** A message as its author wrote it, with LF; the answer to its end. */
export async function submit(client: SmtpClient, to: string | string[], message: string): Promise<string> {
  const recipients = typeof to === "string" ? [to] : to;
  for (const line of ["MAIL FROM:<bounce@example.com>", ...recipients.map((one) => `RCPT TO:<${one}>`)]) {
    const answer = await client.say(line);
    if (!answer.startsWith("250")) return answer;
  }
  await client.say("DATA");
  const wire = message.replace(/\r?\n/g, "\r\n").replace(/^\./gm, "..");
  return client.say(`${wire}\r\n.`);
}

export function idIn(response: string): string {
  return /^250 2\.0\.0 Ok: queued as ([0-9a-f-]{36})$/.exec(response.trim())?.[1] ?? `none in ${response}`;
}
