import { expect, test } from "vitest";
import { draftLetter } from "../../src/api/letter.ts";
import { writeLetters } from "../../src/api/mailmerge.ts";
import { compile } from "../../src/template/compile.ts";

const LETTERS = 100;

test("others have their turn between two letters, and the templates are asked for once", async () => {
  const version = compile({
    subject: "s",
    html: "{{n}}",
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
    draftLetter({ to: "one@example.net", template: { id: "t", variables: { n } } }, sender, `[${n}].`),
  );
  let turns = 0;
  let isWriting = true;
  const others = (): void => {
    turns++;
    if (isWriting) setImmediate(others);
  };
  setImmediate(others);
  const written = await writeLetters(templates, drafts, (_, refusal) => {
    throw refusal;
  });
  isWriting = false;
  expect(written.map(({ email }) => email.html)).toEqual(drafts.map((_, n) => String(n)));
  expect(turns).toBeGreaterThanOrEqual(LETTERS - 1);
  expect(asked).toHaveLength(1);
});
