/** Of HTTP: many other sides may let all of their answers, or of their handshakes, come at once. */
import { Agent as PlainAgent, type RequestOptions } from "node:http";
import { Agent as TlsAgent } from "node:https";
import type { TcpNetConnectOpts } from "node:net";
import type { Duplex } from "node:stream";
import { ConnectionInTurns } from "./connectioninturns.ts";
import { clientContext } from "./tlsgroups.ts";

export class PlainAgentInTurns extends PlainAgent {
  override createConnection(options: RequestOptions): Duplex {
    return new ConnectionInTurns(options as TcpNetConnectOpts);
  }
}

/** With the authorities of the request's `secureContext`; without it, the usual ones. */
export class TlsAgentInTurns extends TlsAgent {
  override createConnection(options: RequestOptions): Duplex | null | undefined {
    const socket = new ConnectionInTurns(options as TcpNetConnectOpts);
    return super.createConnection({ secureContext: clientContext(), ...options, socket } as RequestOptions);
  }
}
