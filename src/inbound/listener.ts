/**
 * The listener for reports: who may connect, how often, and which addresses are taken. Whatever is taken goes
 * to the intake; everything else is refused in the conversation.
 */
import type { Clock } from "../clock.ts";
import { newId } from "../ids.ts";
import type { NewReport } from "../record/mail/reports.ts";
import type { ReturnPathKey } from "../returnpath.ts";
import { networkOf } from "../rules/visitor.ts";
import type { Certificate } from "../smtp/certificate.ts";
import { Flood } from "../smtp/flood.ts";
import { secureContextOf } from "../smtp/handshakes.ts";
import { SmtpListener } from "../smtp/listener.ts";
import { type SessionLimits, SmtpSession } from "../smtp/session.ts";
import { ReportService, type ReportTarget } from "./session.ts";

const CONNECTIONS_MAX = 500;
/** Of one address: a smarthost sends all of its reports. */
const CONNECTIONS_EACH_MAX = 50;
/** About one copy of a mail: a delay a day, and a failure. */
const REPORTS_EACH_HOUR_MAX = 20;
/** To the addresses that everybody may know. */
const COMPLAINTS_EACH_MINUTE_MAX = 600;
const COMPLAINTS_MINUTE_MAX = 6_000;
const MINUTE_MS = 60_000;

/** Of a message that is kept. */
const KEPT_BYTES_MAX = 128 * 1024;
const LIMITS: SessionLimits = {
  messageBytesMax: 50 * 1024 * 1024,
  excessBytesMax: 0,
  // RFC 5321 allows 1,000; some systems send more
  lineBytesMax: 16_384,
  silenceMsMax: 60_000,
  sessionMsMax: 600_000,
  messageMsMax: 600_000,
  messagesMax: 1_000,
  recipientsMax: 10,
  idleCommandsMax: 1_000,
  faultsMax: 10,
};

export type ReportListenerParts = {
  host: string;
  port: number;
  name: string;
  certificate: Certificate;
  /** In lower case. */
  feedbackAddresses: readonly string[];
  /** In lower case; they take TLS reports about our own domains. */
  tlsReportAddresses: readonly string[];
  paths: ReturnPathKey;
  clock: Clock;
  busy(): string | null;
  keep(reports: readonly NewReport[]): Promise<void>;
  onFault(error: unknown): void;
  limits?: Partial<SessionLimits>;
};

type To = Omit<NewReport, "id" | "raw">;

export class ReportListener {
  readonly #parts: ReportListenerParts;
  readonly #listener: SmtpListener;
  readonly #reports: Flood;
  readonly #complaints: Flood;
  readonly #allComplaints: Flood;

  constructor(parts: ReportListenerParts) {
    this.#parts = parts;
    const now = () => parts.clock.now();
    this.#reports = new Flood(REPORTS_EACH_HOUR_MAX, 60 * MINUTE_MS, now);
    this.#complaints = new Flood(COMPLAINTS_EACH_MINUTE_MAX, MINUTE_MS, now);
    this.#allComplaints = new Flood(COMPLAINTS_MINUTE_MAX, MINUTE_MS, now);
    const secureContext = secureContextOf(parts.certificate);
    this.#listener = new SmtpListener({
      limits: { connectionsMax: CONNECTIONS_MAX, connectionsEachMax: CONNECTIONS_EACH_MAX },
      secureContext: () => secureContext,
      onFault: parts.onFault,
    });
  }

  /** The port, when it listens. */
  listen(): Promise<number> {
    const { host, port, name, busy, onFault } = this.#parts;
    const limits = { ...LIMITS, ...this.#parts.limits };
    return this.#listener.listen(host, port, (socket, remote, ties) => {
      const session = { name, isSecure: false, limits, onFault, ...ties };
      const service = new ReportService<To>({
        remote,
        keptBytesMax: KEPT_BYTES_MAX,
        addressee: (address, from) => this.#addressee(address, from),
        keep: (to, message) => this.#keep(to, message),
        busy,
        onFault,
      });
      return new SmtpSession(socket, session, () => service);
    });
  }

  stop(): Promise<void> {
    return this.#listener.stop();
  }

  #addressee(address: string, remote: string): ReportTarget<To> {
    const { paths, clock, feedbackAddresses, tlsReportAddresses } = this.#parts;
    const lower = address.toLowerCase();
    const network = networkOf(remote);
    const source = feedbackAddresses.includes(lower)
      ? "feedback_address"
      : tlsReportAddresses.includes(lower)
        ? "tls_report"
        : null;
    if (source !== null) {
      if (!this.#complaints.takes(remote) || !this.#allComplaints.takes("all"))
        return { kind: "refused", reply: "451 4.7.1 too many reports, try again later" };
      const nobody = { handle: null, workspaceId: null, emailId: null, place: null };
      return { kind: "taken", to: { source, ...nobody, network } };
    }
    const read = paths.read(address.slice(0, Math.max(0, address.lastIndexOf("@"))), clock.now());
    if (read.kind === "expired") return { kind: "refused", reply: "550 5.1.6 this return path has expired" };
    if (read.kind === "foreign")
      return { kind: "refused", reply: "550 5.7.1 only reports about our own mail are accepted here" };
    const { handle, emailId, place } = read.copy;
    if (!this.#reports.takes(`${emailId} ${place}`))
      return { kind: "refused", reply: "450 4.7.1 too many reports about this mail" };
    return {
      kind: "taken",
      to: { source: "return_path", handle, workspaceId: null, emailId, place, network },
    };
  }

  #keep(to: readonly To[], raw: Buffer): Promise<void> {
    const now = this.#parts.clock.now();
    return this.#parts.keep(to.map((one) => ({ id: newId(now), raw, ...one })));
  }
}
