/** The API's own rules for mail over SMTP. Nothing listens where no port is set. */
import type { Caller } from "../../admission/admit.ts";
import type { Bearer } from "../../admission/bearer.ts";
import type { CellFinder } from "../../api/cells.ts";
import { INVALID_KEY } from "../../api/gate.ts";
import { openMailDoor } from "../../api/maildoor.ts";
import type { MailDoor } from "../../submission/service.ts";
import { openSubmission } from "../../submission/submission.ts";
import type { AllCells } from "./allcells.ts";
import { openAbove, openIntake } from "./intake.ts";
import { notOpened, type RoleParts } from "./parts.ts";

export async function startSubmissionRole(fleet: AllCells) {
  const { config, budget, clock, log, onFault } = fleet.home;
  const { submissionHost, submissionPort, submissionTlsPort, submissionTlsCert } = config;
  if (submissionPort === null && submissionTlsPort === null) {
    log.info("no mail is taken over SMTP: SUBMISSION_PORT and SUBMISSION_TLS_PORT are not set");
    return null;
  }
  if (submissionTlsCert === null)
    log.warn(
      "SUBMISSION_TLS_CERT is not set: the certificate of submission is self-signed, and clients refuse it",
    );
  const opened = await Promise.all(fleet.cells.map(openDoor));
  const [{ door: own }] = opened as [OpenDoor];
  const door = opened.length === 1 ? own : doorToCells(opened, fleet.finder);
  const { served, stop } = await openAbove(
    opened,
    () => openSubmission(config, { door, room: budget, clock, onFault }),
    (error) =>
      notOpened(
        `Mail cannot be taken over SMTP on ${submissionHost}, ports ${submissionPort ?? "none"} and ${submissionTlsPort ?? "none"}`,
        error,
        "Set SUBMISSION_HOST, SUBMISSION_PORT, SUBMISSION_TLS_PORT, SUBMISSION_TLS_CERT or SUBMISSION_TLS_KEY.",
      ),
  );
  return { submissionPort: served.port, submissionTlsPort: served.tlsPort, stop };
}

type OpenDoor = Awaited<ReturnType<typeof openDoor>>;

async function openDoor(parts: RoleParts) {
  const intake = await openIntake(parts);
  const door = openMailDoor(intake.parts, parts.onFault);
  return {
    door,
    async close() {
      await door.close();
      await intake.close();
    },
  };
}

/** A mail goes where its sender was admitted. */
function doorToCells(cells: readonly OpenDoor[], finder: CellFinder): MailDoor {
  const { door: home } = cells[0] as OpenDoor;
  const doorOf = new WeakMap<Caller, MailDoor>();
  const admit = async (bearer: Bearer, cell: number | null) => {
    const door = cell === null ? home : (cells[cell] as OpenDoor).door;
    const admitted = await door.admit(bearer);
    if (admitted.kind === "admitted") doorOf.set(admitted.caller, door);
    return admitted;
  };
  return {
    readKey: home.readKey,
    async admit(bearer) {
      const cell = await finder.ofHandle(bearer.handle);
      const admitted = await admit(bearer, cell);
      if (admitted.kind === "admitted" || admitted.name !== INVALID_KEY.name) return admitted;
      finder.forget(bearer.handle);
      const now = await finder.ofHandle(bearer.handle);
      return now === null || now === cell ? admitted : admit(bearer, now);
    },
    send: (caller, mail) => (doorOf.get(caller) ?? home).send(caller, mail),
  };
}
