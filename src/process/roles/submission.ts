/** The API's own rules for mail over SMTP. Nothing listens where no port is set. */
import type { Caller } from "../../admission/admit.ts";
import type { Bearer } from "../../admission/bearer.ts";
import type { Lacking } from "../../admission/unavailable.ts";
import { type CellFinder, HELD_LOOK_MS, HELD_MS_MAX } from "../../api/cells.ts";
import { INVALID_KEY } from "../../api/gate.ts";
import { openMailDoor, refusing } from "../../api/maildoor.ts";
import type { SubmittedMail } from "../../submission/mail.ts";
import type { MailDoor } from "../../submission/service.ts";
import { openSubmission } from "../../submission/submission.ts";
import type { AllCells, JoinCell } from "./allcells.ts";
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
  const doors: MailDoor[] = [];
  const openFor = async (cell: RoleParts, n: number) => {
    const { door, close } = await openDoor(cell);
    doors[n] = door;
    return { close };
  };
  const opened = await Promise.all(
    fleet.cells.flatMap(({ parts }, n) => (parts === null ? [] : [openFor(parts, n)])),
  );
  const door = fleet.cells.length === 1 ? (doors[0] as MailDoor) : doorToCells(doors, fleet.finder, onFault);
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
  const join: JoinCell = async (cell, n) => ({ stop: (await openFor(cell, n)).close });
  return { submissionPort: served.port, submissionTlsPort: served.tlsPort, stop, join };
}

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

/**
 * A mail goes where its sender was admitted, unless its workspace has left that cell since; amid a switch it
 * waits.
 */
export function doorToCells(
  doors: readonly MailDoor[],
  finder: CellFinder,
  onFault: (error: unknown) => void,
): MailDoor {
  const home = doors[0] as MailDoor;
  const admittedBy = new WeakMap<Caller, { bearer: Bearer; door: MailDoor }>();
  const admit = async (bearer: Bearer, door: MailDoor) => {
    const admitted = await door.admit(bearer);
    if (admitted.kind === "admitted") admittedBy.set(admitted.caller, { bearer, door });
    return admitted;
  };
  const doorOf = async ({ handle }: Bearer) => {
    const cell = await finder.ofHandle(handle);
    return cell === null ? home : (doors[cell] as MailDoor);
  };
  /** null: in no other cell. */
  const admitElsewhere = async (bearer: Bearer, door: MailDoor) => {
    finder.forget(bearer.handle);
    const now = await doorOf(bearer);
    return now === door ? null : admit(bearer, now);
  };
  const sendOn = async (caller: Caller, mail: SubmittedMail) => {
    let sender = caller;
    for (const until = performance.now() + HELD_MS_MAX; ; ) {
      const by = admittedBy.get(sender);
      const sent = await (by?.door ?? home).send(sender, mail);
      if (!by || !(isUnknownKey(sent) || isPaused(sent)) || performance.now() > until) return sent;
      const again = await admitElsewhere(by.bearer, by.door);
      if (again?.kind === "refused") return again;
      if (again) sender = again.caller;
      else if (isPaused(sent)) await new Promise((resolve) => setTimeout(resolve, HELD_LOOK_MS));
      else return sent;
    }
  };
  return {
    readKey: home.readKey,
    admit: (bearer) =>
      refusing(onFault, async () => {
        const door = await doorOf(bearer);
        const admitted = await admit(bearer, door);
        return isUnknownKey(admitted) ? ((await admitElsewhere(bearer, door)) ?? admitted) : admitted;
      }),
    send: (caller, mail) => refusing(onFault, () => sendOn(caller, mail)),
  };
}

function isUnknownKey(answer: { kind: string; name?: string }): boolean {
  return answer.kind === "refused" && answer.name === INVALID_KEY.name;
}

/** Nothing was written, since the workspace is about to leave or has left. */
function isPaused(answer: { kind: string; lacking?: Lacking }): boolean {
  return answer.kind === "refused" && answer.lacking === "workspace";
}
