/** However the end of a connection is called, what it ended is told as lost, and a mistake of ours is not. */
import { Socket } from "node:net";
import { expect, test } from "vitest";
import { fateOf } from "../../src/record/db/lost.ts";
import { Session } from "../../src/record/db/session.ts";
import type { Client, Unsent } from "../../src/record/db/statement.ts";

type Hooks = Parameters<ConstructorParameters<typeof Session>[0]["client"]>[0];

/** A session whose connection is up, and a statement on it that fails as told. */
function failing(failure: (socket: Socket) => Error): { session: Session; statement: Unsent } {
  const socket = new Socket();
  let hooks: Hooks | undefined;
  const session = new Session({
    client: (given) => {
      hooks = given;
      return { end: async () => {} } as unknown as Client;
    },
    connect: () => socket,
    silenceMsMax: null,
    onChange: () => {},
  });
  hooks?.socket();
  session.hasAnswered = true;
  const execute = async () => Promise.reject(failure(socket));
  return { session, statement: { writtenBy: () => ({ execute }) } as unknown as Unsent };
}

test("a stream that was destroyed under the client: nobody knows whether it was done", async () => {
  const { session, statement } = failing((socket) => {
    socket.destroy();
    return Object.assign(new Error("Cannot call write after a stream was destroyed"), {
      code: "ERR_STREAM_DESTROYED",
    });
  });
  const error = await session.run(statement).catch((error: unknown) => error);
  expect(fateOf(error)).toBe("unknown");
});

test("a parameter that the client cannot write is our mistake", async () => {
  const { session, statement } = failing(() => new TypeError("not a function"));
  const error = await session.run(statement).catch((error: unknown) => error);
  expect(fateOf(error)).toBe(null);
});
