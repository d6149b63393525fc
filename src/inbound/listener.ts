/**
 * The listener for reports: who may connect, how often, and which addresses are taken. Whatever is taken goes to the
 * intake; everything else is refused in the conversation.
 */
import { createServer, type Server } from "node:net";
import { createSecureContext } from "node:tls";
import type { Clock } from "../clock.ts";
import { newId } from "../ids.ts";
import type { NewReport } from "../record/mail/reports.ts";
import type { ReturnPathKey } from "../returnpath.ts";
import type { Certificate } from "./certificate.ts";
import { Flood } from "./flood.ts";
import { ReportSession, type ReportTarget, type SessionLimits } from "./session.ts";

const CONNECTIONS_MAX = 500;
/** Of one address: a smarthost sends all of its reports. */
const CONNECTIONS_EACH_MAX = 50;
/** About one copy of a mail: a delay a day, and a failure. */
const REPORTS_EACH_HOUR_MAX = 20;
/** To feedback addresses, which everybody may know. */
const COMPLAINTS_EACH_MINUTE_MAX = 600;
const COMPLAINTS_MINUTE_MAX = 6_000;
const MINUTE_MS = 60_000;

const LIMITS: SessionLimits = {
  messageBytesMax: 50 * 1024 * 1024,
  keptBytesMax: 128 * 1024,
  silenceMsMax: 60_000,
  sessionMsMax: 600_000,
  messagesMax: 1_000,
  recipientsMax: 10,
  faultsMax: 10,
};

export type ListenerParts = {
  host: string;
  port: number;
  name: string;
  certificate: Certificate;
  /** In lower case. */
  feedbackAddresses: readonly string[];
  paths: ReturnPathKey;
  clock: Clock;
  busy(): string | null;
  keep(reports: readonly NewReport[]): Promise<void>;
  onFault(error: unknown): void;
  limits?: Partial<SessionLimits>;
};

type To = Omit<NewReport, "id" | "raw">;

export class ReportListener {
  readonly #parts: ListenerParts;
  readonly #server: Server;
  readonly #sessions = new Map<ReportSession<To>, string>();
  readonly #perAddress = new Map<string, number>();
  readonly #reports: Flood;
  readonly #complaints: Flood;
  readonly #allComplaints: Flood;

  constructor(parts: ListenerParts) {
    this.#parts = parts;
    const now = () => parts.clock.now();
    this.#reports = new Flood(REPORTS_EACH_HOUR_MAX, 60 * MINUTE_MS, now);
    this.#complaints = new Flood(COMPLAINTS_EACH_MINUTE_MAX, MINUTE_MS, now);
    this.#allComplaints = new Flood(COMPLAINTS_MINUTE_MAX, MINUTE_MS, now);
    const { certificate, name, busy, onFault } = parts;
    const secureContext = createSecureContext(certificate);
    const limits = { ...LIMITS, ...parts.limits };
    this.#server = createServer((socket) => {
      const remote = socket.remoteAddress ?? "";
      const open = this.#perAddress.get(remote) ?? 0;
      if (this.#sessions.size >= CONNECTIONS_MAX || open >= CONNECTIONS_EACH_MAX) {
        socket.on("error", () => {});
        socket.end("421 4.7.0 too many connections\r\n");
        return;
      }
      this.#perAddress.set(remote, open + 1);
      const session: ReportSession<To> = new ReportSession(socket, {
        name,
        secureContext,
        limits,
        addressee: (address, from) => this.#addressee(address, from),
        keep: (to, message) => this.#keep(to, message),
        busy,
        onFault,
        onEnd: () => this.#ended(session),
      });
      this.#sessions.set(session, remote);
    });
  }

  /** The port, when it listens. */
  async listen(): Promise<number> {
    const { host, port, onFault } = this.#parts;
    await new Promise<void>((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen({ host, port }, () => {
        this.#server.off("error", reject);
        this.#server.on("error", onFault);
        resolve();
      });
    });
    const at = this.#server.address();
    return typeof at === "object" && at !== null ? at.port : port;
  }

  async stop(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const session of [...this.#sessions.keys()]) session.close("421 4.3.2 closing");
    await closed;
  }

  #ended(session: ReportSession<To>): void {
    const remote = this.#sessions.get(session);
    if (remote === undefined) return;
    this.#sessions.delete(session);
    const left = (this.#perAddress.get(remote) ?? 1) - 1;
    if (left > 0) this.#perAddress.set(remote, left);
    else this.#perAddress.delete(remote);
  }

  #addressee(address: string, remote: string): ReportTarget<To> {
    const { paths, clock, feedbackAddresses } = this.#parts;
    if (feedbackAddresses.includes(address.toLowerCase())) {
      if (!this.#complaints.takes(remote) || !this.#allComplaints.takes("all"))
        return { kind: "refused", reply: "451 4.7.1 too many complaints, try again later" };
      const nobody = { handle: null, workspaceId: null, emailId: null, place: null };
      return { kind: "taken", to: { source: "feedback_address", ...nobody } };
    }
    const read = paths.read(address.slice(0, Math.max(0, address.lastIndexOf("@"))), clock.now());
    if (read.kind === "expired") return { kind: "refused", reply: "550 5.1.6 this return path has expired" };
    if (read.kind === "foreign")
      return { kind: "refused", reply: "550 5.7.1 only reports about our own mail are taken here" };
    const { handle, emailId, place } = read.copy;
    if (!this.#reports.takes(`${emailId} ${place}`))
      return { kind: "refused", reply: "450 4.7.1 too many reports about this mail" };
    return { kind: "taken", to: { source: "return_path", handle, workspaceId: null, emailId, place } };
  }

  #keep(to: readonly To[], raw: Buffer): Promise<void> {
    const now = this.#parts.clock.now();
    return this.#parts.keep(to.map((one) => ({ ...one, id: newId(now), raw })));
  }
}
