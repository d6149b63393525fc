import { describe, expect, test } from "vitest";
import { parseMailbox } from "../../src/address.ts";
import { makeKey } from "../../src/domain/key.ts";
import { compose, type MessageContent } from "../../src/message/compose.ts";
import { plaintextInTurns, plaintextOf } from "../../src/message/plaintext.ts";
import { type SigningKey, signed } from "../../src/message/sign.ts";
import { toWire, toWireInTurns } from "../../src/smtp/dots.ts";
import { turnIfLate } from "../../src/turn.ts";
import { heldBy } from "../rig/held.ts";

const HELD_MS_MAX = 50;
/** What a request may hold of each. */
const CONTENT_CHARS = 2 * 1024 * 1024;

const key: SigningKey = { domain: "example.com", selector: "one", ...(await makeKey("rsa")) };
const mailboxOf = (text: string) => {
  const mailbox = parseMailbox(text);
  if (!mailbox) throw new Error(text);
  return mailbox;
};
const letter = (more: Partial<MessageContent>): MessageContent => ({
  messageId: "0190@example.com",
  date: new Date(0),
  from: mailboxOf("Acme <orders@example.com>"),
  to: [mailboxOf("one@example.net")],
  cc: [],
  replyTo: [],
  subject: "Order 1",
  html: null,
  text: null,
  headers: {},
  attachments: [],
  ...more,
});
const filled = (piece: string) => piece.repeat(Math.ceil(CONTENT_CHARS / Buffer.byteLength(piece)));

async function prepared(more: Partial<MessageContent>): Promise<Buffer> {
  return toWire(await toWireInTurns(await signed(await compose(letter(more)), [key])));
}

const PIECES = [
  ..."&#1|&shy;|&nbsp;|&amp;|&|<b>|<a href=x>|<a href=x>y</a>|<p>|<li>|<ul>|</ul>|<blockquote>x|<td>|<|< |</|<!-- -->".split(
    "|",
  ),
  ..."<a |<a b='|<script>|<script></|<script></script>|<img alt='&#1;'>|<a a/a/a/a>|<div style=display:none>|x<hr>|=|é|\u200b|a ".split(
    "|",
  ),
  ..."\n|\r|\t |.\n|.\r| \r\n|<pre>\n|<a\n\n\n>|<div style=display:none><b>&#1|\ud83d\ude00".split("|"),
];

test.each(PIECES.map((piece) => [JSON.stringify(piece), piece]))(
  "html and text full of %s",
  async (_, piece) => {
    const content = filled(piece);
    expect(await heldBy(() => prepared({ html: content }), HELD_MS_MAX)).toBeLessThan(HELD_MS_MAX);
    expect(await heldBy(() => prepared({ text: content }), HELD_MS_MAX)).toBeLessThan(HELD_MS_MAX);
  },
  60_000,
);

describe("one tag that fills the html:", () => {
  test.each([
    ["attributes", `<img ${"b ".repeat(CONTENT_CHARS / 2)}>`],
    ["attributes with values", `<img ${"b=c ".repeat(CONTENT_CHARS / 4)}>`],
    ["an address of spaces", `<a href='${" x".repeat(CONTENT_CHARS / 2)}'>y</a>`],
    ["spaces", `<img b${" ".repeat(CONTENT_CHARS)}>`],
    ["half of what hides", `<b ${"display ".repeat(CONTENT_CHARS / 8)}>`],
  ])("%s", async (_, html) => {
    expect(await heldBy(() => prepared({ html }), HELD_MS_MAX)).toBeLessThan(HELD_MS_MAX);
  });
});

test.each(["<\u00e9&", "<\u200b", "<&\u200b "])(
  "a hidden end behind html that is read in two passes: %j",
  async (piece) => {
    const html = `${piece.repeat(Math.floor(130_000 / piece.length))}<p style=display:none>`;
    for (const chars of [32_000, 65_000, 130_000])
      expect(await heldBy(() => prepared({ html: html.slice(-chars) }), HELD_MS_MAX)).toBeLessThan(
        HELD_MS_MAX,
      );
  },
);

describe("one script that fills the html:", () => {
  test.each([
    ["script", "</"],
    ["SCRIPT", "</scrip"],
    ["template", "</t"],
    ["svg", "</\u4e2d"],
  ])("<%s> full of %s", async (tag, piece) => {
    const html = `<${tag}>${filled(piece)}`;
    expect(await heldBy(() => prepared({ html }), HELD_MS_MAX)).toBeLessThan(HELD_MS_MAX);
  });
});

test("a script ends at its own end tag, however it is written", () => {
  const html = "a<script></b></scripT\n x='>'>b<Style></script></STYLE>c<svg/>d<title></titl</TITLE >e";
  expect(plaintextOf(html)).toBe("abcde");
});

test("a header as long as it may be", async () => {
  const name = "é".repeat(300);
  const people = Array.from({ length: 50 }, (_, n) => mailboxOf(`"${name}" <to${n}@example.net>`));
  const headers = Object.fromEntries(Array.from({ length: 100 }, (_, n) => [`X-${n}`, "=?é ".repeat(30)]));
  const more = { to: people, replyTo: people, subject: "é".repeat(998), headers, text: "x" };
  expect(await heldBy(() => prepared(more), HELD_MS_MAX)).toBeLessThan(HELD_MS_MAX);
});

test("attachments as large as they may be, and a dot that has to be doubled", async () => {
  const attachments = Array.from({ length: 2 }, () => ({
    filename: "é".repeat(255),
    content: Buffer.alloc(14 * 1024 * 1024, "abc"),
    contentType: null,
    contentId: null,
  }));
  const ms = await heldBy(() => prepared({ text: ".\n", attachments }), HELD_MS_MAX);
  expect(ms).toBeLessThan(HELD_MS_MAX);
});

test("a hundred large e-mails that are begun together", async () => {
  const html = filled("&#1").slice(0, 100_000);
  const all = () =>
    Promise.all(
      Array.from({ length: 100 }, async () => {
        const late = turnIfLate();
        if (late) await late;
        return compose(letter({ html }));
      }),
    );
  expect(await heldBy(all, HELD_MS_MAX)).toBeLessThan(HELD_MS_MAX);
});

test("what is written in turns is what is written at once", async () => {
  for (const piece of PIECES) {
    const content = piece.repeat(Math.ceil(40_000 / piece.length));
    expect(await plaintextInTurns(content), piece).toBe(plaintextOf(content));
  }
});
