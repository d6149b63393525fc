/** Mail over SMTP when its workspace moves between the login and the end of the message. */
import { expect, test } from "vitest";
import type { Caller } from "../../src/admission/admit.ts";
import type { Bearer } from "../../src/admission/bearer.ts";
import { Unavailable } from "../../src/admission/unavailable.ts";
import { INVALID_KEY } from "../../src/api/gate.ts";
import { doorToCells } from "../../src/process/roles/submission.ts";
import type { SubmittedMail } from "../../src/submission/mail.ts";
import type { MailDoor } from "../../src/submission/service.ts";

const BEARER = { handle: "shop" } as Bearer;
const MAIL = {} as SubmittedMail;
const REFUSED = { kind: "refused" as const, ...INVALID_KEY };

/** Two cells and a workspace in one of them; each door says which it is. */
function cellsWith(place: { cell: number }) {
  let remembered: number | null = null;
  const door = (cell: number): MailDoor => ({
    readKey: () => BEARER,
    admit: async () =>
      place.cell === cell ? { kind: "admitted", caller: { isSuspended: false } as Caller } : REFUSED,
    send: async () => (place.cell === cell ? { kind: "sent", id: `cell ${cell}` } : REFUSED),
  });
  const finder = {
    ofHandle: async () => {
      remembered ??= place.cell;
      return remembered < 2 ? remembered : null;
    },
    ofWorkspace: async () => place.cell,
    forget: () => {
      remembered = null;
    },
  };
  return doorToCells([door(0), door(1)], finder, () => {});
}

async function callerOf(door: MailDoor): Promise<Caller> {
  const admitted = await door.admit(BEARER);
  if (admitted.kind !== "admitted") throw new Error(admitted.message);
  return admitted.caller;
}

test("what was admitted before the move is taken by the cell where the workspace is then", async () => {
  const place = { cell: 0 };
  const door = cellsWith(place);
  const caller = await callerOf(door);
  place.cell = 1;
  expect(await door.send(caller, MAIL)).toEqual({ kind: "sent", id: "cell 1" });
  expect(await door.send(await callerOf(door), MAIL)).toEqual({ kind: "sent", id: "cell 1" });
});

test("a key that no cell knows is refused", async () => {
  const place = { cell: 0 };
  const door = cellsWith(place);
  const caller = await callerOf(door);
  place.cell = 2;
  expect(await door.send(caller, MAIL)).toMatchObject({ kind: "refused", name: INVALID_KEY.name });
});

test("a cell that does not answer is a reason to try again, and no fault of the sender", async () => {
  const away = new Unavailable("postgres", "a cell did not answer");
  const finder = {
    ofHandle: () => Promise.reject(away),
    ofWorkspace: () => Promise.reject(away),
    forget() {},
  };
  const home = { readKey: () => BEARER, admit: async () => REFUSED, send: async () => REFUSED };
  const faults: unknown[] = [];
  const admitted = await doorToCells([home], finder, (error) => faults.push(error)).admit(BEARER);
  expect(admitted).toMatchObject({
    kind: "refused",
    name: "service_unavailable",
    message: expect.stringContaining("Postgres does not answer."),
  });
  expect(faults).toEqual([away]);
});
