/** An HTTPS server that serves one text, counts what it is asked, and behaves as badly as a test wants. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer } from "node:https";
import type { Certificate } from "../../src/smtp/certificate.ts";
import { listenOn } from "./port.ts";

export type PolicyHost = {
  text: string;
  /** Paths asked for. */
  readonly asked: string[];
  /** In place of the text. */
  answer: ((request: IncomingMessage, response: ServerResponse) => void) | null;
  close(): Promise<void>;
};

export async function openPolicyHost(
  host: string,
  port: number,
  certificate: Certificate,
): Promise<PolicyHost> {
  const server = createServer(certificate, (request, response) => {
    served.asked.push(request.url ?? "");
    if (served.answer) return served.answer(request, response);
    response.setHeader("content-type", "text/plain");
    response.end(served.text);
  });
  const served: PolicyHost = {
    text: "",
    asked: [],
    answer: null,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
  await listenOn(server, port, host);
  return served;
}
