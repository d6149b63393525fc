/**
 * Handshakes of TLS as a server. Each signs with the key of the certificate as soon as the bytes for it are
 * there, which takes up to 7 ms. So few of one address are under way at once. The first few of all go the
 * short way: TLS reads from the socket itself. What comes for the others is handed to TLS in turns, and goes
 * through JavaScript for as long as the connection lasts. Of them, one that has not begun takes no place;
 * in the turns of a client (`clienthandshakes.ts`) each would take one, and here they may be thousands.
 */
import { constants } from "node:crypto";
import type { Socket } from "node:net";
import { createSecureContext, type SecureContext, TLSSocket } from "node:tls";
import { whenLate } from "../clock.ts";
import { ConnectionInTurns } from "../connectioninturns.ts";
import { SERVER_GROUPS } from "../tlsgroups.ts";
import { turnIfLate } from "../turn.ts";
import type { Certificate } from "./certificate.ts";

/** Of one address. Who holds back the last bytes of them makes us sign so often in one turn. */
const UNDER_WAY_MAX = 5;
/** In all. These may all sign in one round of the event loop, whatever turns there are. */
const SHORT_WAY_MAX = 3;
/** So many under way leave the rest of the short ways to other addresses. */
const SHORT_WAY_EACH_MAX = 2;
const HANDSHAKE_MS_MAX = 10_000;

/** Without a second handshake on the same connection: who needs one may connect again. */
export function secureContextOf(certificate: Certificate): SecureContext {
  return createSecureContext({
    ...certificate,
    ecdhCurve: SERVER_GROUPS,
    secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
  });
}

type Handshake = { remote: string; socket: Socket; begin(): TLSSocket };

export class Handshakes {
  readonly #underWay = new Map<string, number>();
  readonly #waiting = new Map<string, Set<Handshake>>();
  #onShortWay = 0;

  /** `begun` gets the connection that is used from then on: what is written to it waits for the handshake. */
  begin(remote: string, socket: Socket, context: SecureContext, begun: (secured: TLSSocket) => void): void {
    const secure = (open: Socket) => {
      const secured = new TLSSocket(open, { isServer: true, secureContext: context });
      begun(secured);
      return secured;
    };
    const underWay = this.#underWay.get(remote) ?? 0;
    if (this.#onShortWay < SHORT_WAY_MAX && underWay < SHORT_WAY_EACH_MAX) {
      this.#onShortWay++;
      this.#underWay.set(remote, underWay + 1);
      whenOver(secure(socket), () => {
        this.#onShortWay--;
        this.#leave(remote);
      });
      return;
    }
    const inTurns = new ConnectionInTurns(socket);
    // Node takes any stream, its types do not
    const begin = () => secure(inTurns as unknown as Socket);
    inTurns.once("arrival", () => this.#enter({ remote, socket, begin }));
    inTurns.on("error", () => {});
    socket.resume();
  }

  #enter(handshake: Handshake): void {
    const { remote, socket } = handshake;
    const underWay = this.#underWay.get(remote) ?? 0;
    if (underWay < UNDER_WAY_MAX) {
      this.#underWay.set(remote, underWay + 1);
      void this.#run(handshake);
      return;
    }
    const line = this.#waiting.get(remote);
    if (line) line.add(handshake);
    else this.#waiting.set(remote, new Set([handshake]));
    // who comes and goes while others are at it leaves nothing behind
    socket.once("close", () => this.#forget(handshake));
  }

  async #run({ remote, socket, begin }: Handshake): Promise<void> {
    const late = turnIfLate();
    if (late) await late;
    if (socket.destroyed) {
      this.#leave(remote);
      return;
    }
    whenOver(begin(), () => this.#leave(remote));
  }

  #leave(remote: string): void {
    const [next] = this.#waiting.get(remote) ?? [];
    if (next) {
      this.#forget(next);
      void this.#run(next);
      return;
    }
    const left = (this.#underWay.get(remote) ?? 1) - 1;
    if (left > 0) this.#underWay.set(remote, left);
    else this.#underWay.delete(remote);
  }

  #forget(handshake: Handshake): void {
    const line = this.#waiting.get(handshake.remote);
    line?.delete(handshake);
    if (line?.size === 0) this.#waiting.delete(handshake.remote);
  }
}

/** Calls `done` once, when there is TLS or never will be. */
function whenOver(secured: TLSSocket, done: () => void): void {
  const drop = () => secured.destroy();
  const cancelLate = whenLate(HANDSHAKE_MS_MAX, drop);
  let isOver = false;
  const over = () => {
    if (isOver) return;
    isOver = true;
    cancelLate();
    secured.off("end", drop);
    done();
  };
  secured.once("secure", over);
  secured.once("close", over);
  // of itself it would wait for what can come no more
  secured.once("end", drop);
}
