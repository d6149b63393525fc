/**
 * The role that takes mail over SMTP from whoever has an API key, put together: ports, certificate, limits.
 */
import { readFileSync } from "node:fs";
import type { SecureContext } from "node:tls";
import type { Clock } from "../clock.ts";
import type { Config } from "../config.ts";
import { type Certificate, selfSigned } from "../smtp/certificate.ts";
import { Flood } from "../smtp/flood.ts";
import { secureContextOf } from "../smtp/handshakes.ts";
import { SmtpListener } from "../smtp/listener.ts";
import { type SessionLimits, SmtpSession } from "../smtp/session.ts";
import { MailReader } from "./mailreader.ts";
import { type MailDoor, type MessageRoom, SubmissionService } from "./service.ts";

const LISTENER_LIMITS = { connectionsMax: 1_000, connectionsEachMax: 100 };
const LIMITS: SessionLimits = {
  // as the API takes
  messageBytesMax: 40 * 1024 * 1024,
  excessBytesMax: 24 * 1024 * 1024,
  // RFC 5321 allows 1,000; the engine writes every message anew, and clients send HTML in one line
  lineBytesMax: 1024 * 1024,
  silenceMsMax: 60_000,
  // until the login
  sessionMsMax: 60_000,
  messageMsMax: 600_000,
  messagesMax: 10_000,
  recipientsMax: 50,
  idleCommandsMax: 100,
  faultsMax: 10,
};
/** Clients keep connections for their next mail. */
const LOGGED_IN_MS_MAX = 3_600_000;
const CERTIFICATE_EVERY_MS = 30_000;
const FAILED_LOGINS_MAX = 20;
const FAILED_LOGINS_MS = 300_000;

export type SubmissionParts = {
  door: MailDoor;
  room: MessageRoom;
  clock: Clock;
  onFault(error: unknown): void;
  limits?: Partial<SessionLimits>;
};

/** null: not listening there. */
export type SubmissionRole = { port: number | null; tlsPort: number | null; stop(): Promise<void> };

type SubmissionSettings = Pick<
  Config,
  | "submissionHost"
  | "submissionPort"
  | "submissionTlsPort"
  | "submissionTlsCert"
  | "submissionTlsKey"
  | "ehloName"
>;

/** Throws when it cannot listen, or when the certificate cannot be used. */
export async function openSubmission(
  settings: SubmissionSettings,
  parts: SubmissionParts,
): Promise<SubmissionRole> {
  const { submissionHost: host, submissionPort, submissionTlsPort, ehloName } = settings;
  const { door, room, clock, onFault } = parts;
  const name = ehloName ?? "localhost";
  const certificate = new CertificateInUse(
    certificateReader(settings, () => selfSigned(name, clock.now())),
    onFault,
  );
  const limits = { ...LIMITS, ...parts.limits };
  const reader = new MailReader();
  const failures = new Flood(FAILED_LOGINS_MAX, FAILED_LOGINS_MS, () => clock.now());
  const secureContext = () => certificate.secureContext;
  const listener = new SmtpListener({ limits: LISTENER_LIMITS, secureContext, onFault });
  const listen = (port: number | null, isSecure: boolean) =>
    port === null
      ? null
      : listener.listen(
          host,
          port,
          (socket, remote, ties) =>
            new SmtpSession(
              socket,
              { name, isSecure, limits, onFault, ...ties },
              (self) =>
                new SubmissionService({
                  remote,
                  door,
                  room,
                  failures,
                  read: (...message) => reader.read(...message),
                  onAuthenticated: () => self.extend(LOGGED_IN_MS_MAX),
                }),
            ),
        );
  const stop = async () => {
    certificate.stop();
    await listener.stop();
    await reader.close();
  };
  try {
    return {
      port: await listen(submissionPort, false),
      tlsPort: await listen(submissionTlsPort, true),
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Looked at again and again, since certificates are renewed while the process runs. */
class CertificateInUse {
  secureContext: SecureContext;
  readonly #timer: NodeJS.Timeout;

  constructor(read: () => Certificate, onFault: (error: unknown) => void) {
    let known = read();
    this.secureContext = secureContextOf(known);
    const look = () => {
      const found = read();
      if (found.cert === known.cert && found.key === known.key) return;
      this.secureContext = secureContextOf(found);
      known = found;
    };
    this.#timer = setInterval(() => {
      try {
        look();
      } catch (error) {
        onFault(error); // the one in use stays, as when only one of the files is new
      }
    }, CERTIFICATE_EVERY_MS).unref();
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}

/** Reads the files, or makes one for as long as the process runs. */
function certificateReader(
  { submissionTlsCert: cert, submissionTlsKey: key }: SubmissionSettings,
  made: () => Certificate,
): () => Certificate {
  if (cert === null && key === null) {
    const own = made();
    return () => own;
  }
  if (cert === null || key === null)
    throw new Error("SUBMISSION_TLS_CERT and SUBMISSION_TLS_KEY are needed together");
  return () => ({ cert: readFileSync(cert, "utf8"), key: readFileSync(key, "utf8") });
}
