/**
 * One test mail, with every line of the SMTP conversation shown, for an operator who looks into missing mail.
 * It uses the same code as all mail, but is not counted and not stored.
 */
import { Conversation, type Delivery, type Peer } from "../smtp/conversation.ts";
import type { Envelope } from "../smtp/envelope.ts";
import { ownName } from "../smtp/ownname.ts";
import type { Reply } from "../smtp/reply.ts";
import { requiresTls } from "../smtp/tlsneed.ts";
import { watchDeadlines } from "../smtp/watch.ts";
import type { DirectSettings } from "./direct.ts";
import { type ReceiverParts, receiversFor } from "./receivers.ts";
import { Routes } from "./routes.ts";

const TICK_MS = 100;
const STEP_MS = 30_000;

export type WireLine = { who: "us" | "them" | "note"; text: string };

/** The hosts for the mail of a domain, by preference; or why there are none. */
export async function receiversOf(
  settings: DirectSettings,
  domain: string,
  parts: ReceiverParts,
): Promise<Peer[] | Reply> {
  const { directSourceAddress, directPort: port, smtpTls: tls } = settings;
  const { routes, secureContext, dane } = receiversFor(settings, parts);
  dane?.start(parts.onFault);
  const route = await new Routes(routes).find(domain);
  dane?.stop();
  if ("phase" in route) return route;
  return route.stops.map(({ host, address, need }) => ({
    host,
    address,
    ...(directSourceAddress !== null && { localAddress: directSourceAddress }),
    port,
    tls: requiresTls(need) ? "required" : tls,
    verifyCertificate: need?.kind === "verified",
    ca: null,
    secureContext,
    need,
    wallMs: parts.clock.now(),
    credentials: null,
    helo: settings.ehloName ?? ownName() ?? "[127.0.0.1]",
  }));
}

/** Tries one host after the other until one accepts us. One reply per recipient. */
export async function sendByHand(
  peers: readonly Peer[],
  envelope: Envelope,
  message: Buffer,
  tell: (told: WireLine) => void,
): Promise<Reply[]> {
  let last: Reply[] = [];
  for (const peer of peers) {
    tell({
      who: "note",
      text: `connecting to ${peer.host}${peer.address ? ` [${peer.address}]` : ""}, port ${peer.port}`,
    });
    const { replies, wasReady } = await converse(peer, envelope, message, tell);
    last = replies;
    if (wasReady) return replies;
    tell({ who: "note", text: replies[0]?.text ?? "no connection" });
  }
  return last;
}

function converse(
  peer: Peer,
  envelope: Envelope,
  message: Buffer,
  tell: (told: WireLine) => void,
): Promise<{ replies: Reply[]; wasReady: boolean }> {
  const now = () => performance.now();
  return new Promise((resolve) => {
    let wasReady = false;
    let answered: Reply[] | null = null;
    const delivery: Delivery = {
      envelope,
      message,
      permit: { mayBegin: () => true },
      since: now(),
      returns: 0,
      settle: (replies) => {
        answered = replies;
      },
    };
    const conversation: Conversation = new Conversation(
      peer,
      {
        ...{ connectMs: STEP_MS, greetingMs: STEP_MS, commandMs: STEP_MS, dotMs: STEP_MS },
        beforeDataMs: Number.POSITIVE_INFINITY,
      },
      {
        now,
        onReady: (ready) => {
          if (wasReady) return ready.retire();
          wasReady = true;
          ready.carry(delivery);
        },
        onLeaving: () => null,
        onReturn: (_, reason) => {
          if (reason) answered = envelope.to.map(() => reason);
        },
        onOver: (_, failure) => {
          clearInterval(ticker);
          // what was under way is answered right behind this
          setImmediate(() => {
            const replies = answered ?? envelope.to.map(() => failure as Reply);
            resolve({ replies, wasReady });
          });
        },
        onWire: (isOurs, text) => tell({ who: isOurs ? "us" : "them", text }),
      },
      0,
    );
    const ticker = watchDeadlines(TICK_MS, now, (at) => conversation.tick(at));
  });
}
