import { expect, test } from "vitest";
import { draftOf } from "../../src/api/draft.ts";
import { writeDrafts } from "../../src/api/mailmerge.ts";
import { compile } from "../../src/template/compile.ts";

const LETTERS = 100;
/** Of work between two turns: what a round has, and a letter. */
const TURN_MS_MAX = 25;

function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}

test("others have their turn between dear letters, and the templates are asked for once", async () => {
  const version = compile({
    subject: "s",
    html: "{{n}}{% for i in (1..500) %}{% assign x = i %}{% endfor %}",
    text: null,
    from: "a@example.com",
    replyTo: [],
    declared: [],
  });
  const asked: (readonly string[])[] = [];
  const templates = {
    fetch: async (_: string, refs: readonly string[]) => {
      asked.push(refs);
      return new Map([["t", version]]);
    },
  };
  const sender = { workspaceId: "w", keyId: "k", stream: "transactional", streams: "", now: 0, trace: null };
  const drafts = Array.from({ length: LETTERS }, (_, n) =>
    draftOf({ to: "one@example.net", template: { id: "t", variables: { n } } }, sender, `[${n}].`),
  );
  let turns = 0;
  let isWriting = true;
  const began = cpuMs();
  const others = (): void => {
    turns++;
    if (isWriting) setImmediate(others);
  };
  setImmediate(others);
  const written = await writeDrafts(templates, drafts, (_, refusal) => {
    throw refusal;
  });
  isWriting = false;
  const worked = cpuMs() - began;
  expect(written.map(({ email }) => email.html)).toEqual(drafts.map((_, n) => String(n)));
  expect(worked).toBeGreaterThan(2 * TURN_MS_MAX);
  expect(turns).toBeGreaterThan(worked / TURN_MS_MAX);
  expect(asked).toHaveLength(1);
});
