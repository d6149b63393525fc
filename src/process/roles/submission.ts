/** The API's own rules for mail over SMTP. Nothing listens where no port is set. */
import { openMailDoor } from "../../api/maildoor.ts";
import { atMost } from "../../clock.ts";
import { openSubmission } from "../../submission/submission.ts";
import { openIntake } from "./intake.ts";
import { API_STOP_MS, notOpened, type RoleParts } from "./parts.ts";

export async function startSubmissionRole(parts: RoleParts) {
  const { config, budget, clock, log, onFault } = parts;
  const { submissionHost, submissionPort, submissionTlsPort, submissionTlsCert } = config;
  if (submissionPort === null && submissionTlsPort === null) {
    log.info("no mail is taken over SMTP: SUBMISSION_PORT and SUBMISSION_TLS_PORT are not set");
    return null;
  }
  if (submissionTlsCert === null)
    log.warn(
      "SUBMISSION_TLS_CERT is not set: the certificate of submission is self-signed, and clients refuse it",
    );
  const intake = await openIntake(parts);
  const door = openMailDoor(intake.parts, onFault);
  try {
    const submission = await openSubmission(config, { door, room: budget, clock, onFault });
    return {
      submissionPort: submission.port,
      submissionTlsPort: submission.tlsPort,
      async stop() {
        await atMost(API_STOP_MS, submission.stop());
        await door.close();
        await intake.close();
      },
    };
  } catch (error) {
    await door.close();
    await intake.close();
    throw notOpened(
      `Mail cannot be taken over SMTP on ${submissionHost}, ports ${submissionPort ?? "none"} and ${submissionTlsPort ?? "none"}`,
      error,
      "Set SUBMISSION_HOST, SUBMISSION_PORT, SUBMISSION_TLS_PORT, SUBMISSION_TLS_CERT or SUBMISSION_TLS_KEY.",
    );
  }
}
