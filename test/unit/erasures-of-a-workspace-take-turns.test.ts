/**
 * Passes over the mail of one workspace never run at once, and whoever asks is served by one that began
 * afterwards.
 */
import { expect, test } from "vitest";
import { ErasurePasses } from "../../src/audience/erasure.ts";

/** Passes that end when they are told to. */
function passes() {
  const begun: { workspaceId: string; end: () => void; fail: (error: Error) => void }[] = [];
  const erasures = new ErasurePasses(
    (workspaceId) =>
      new Promise<void>((end, fail) => {
        begun.push({ workspaceId, end, fail });
      }),
  );
  const names = () => begun.map(({ workspaceId }) => workspaceId);
  return { erasures, begun, names };
}

test("who asks during a pass waits for the next, and it serves all of them", async () => {
  const { erasures, begun, names } = passes();
  const first = erasures.run("a");
  const later = [erasures.run("a"), erasures.run("a"), erasures.run("a")];
  expect(names()).toEqual(["a"]);
  begun[0]?.end();
  await first;
  await Promise.resolve();
  expect(names()).toEqual(["a", "a"]);
  begun[1]?.end();
  await Promise.all(later);
  expect(names()).toEqual(["a", "a"]);
});

test("workspaces do not wait for each other", () => {
  const { erasures, names } = passes();
  void erasures.run("a");
  void erasures.run("b");
  expect(names()).toEqual(["a", "b"]);
});

test("a pass that fails keeps nobody from the next", async () => {
  const { erasures, begun, names } = passes();
  const first = erasures.run("a");
  const next = erasures.run("a");
  begun[0]?.fail(new Error("Postgres is away"));
  await expect(first).rejects.toThrow("away");
  await Promise.resolve();
  begun[1]?.end();
  await next;
  void erasures.run("a");
  expect(names()).toEqual(["a", "a", "a"]);
});
