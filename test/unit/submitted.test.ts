/** Messages as clients write them, and what is read of them. */
import { describe, expect, test } from "vitest";
import { decodeWords } from "../../src/message/encodedwords.ts";
import { MessageBytes } from "../../src/smtp/messagebytes.ts";
import { MessageReader } from "../../src/smtp/messagereader.ts";
import { addressesIn, structured } from "../../src/submission/fields.ts";
import { readMail } from "../../src/submission/mail.ts";
import { replyLines } from "../../src/submission/replies.ts";

const HEAD = "From: a@example.com\nTo: one@example.net\nSubject: x\n";

function read(message: string | Buffer, envelope = ["one@example.net"]) {
  const bytes = Buffer.isBuffer(message) ? message : Buffer.from(message.replace(/\r?\n/g, "\r\n"));
  return readMail(bytes, envelope);
}

test("a file that was encoded piece by piece is there whole", () => {
  const pieces = ["first ", "second, ", "third"];
  const encoded = pieces.map((piece) => Buffer.from(piece).toString("base64")).join("\n");
  const part = `Content-Type: application/pdf; name=a.pdf\nContent-Transfer-Encoding: base64\n\n${encoded}\n`;
  const { files } = read(
    `${HEAD}Content-Type: multipart/mixed; boundary=q\n\n--q\n\nHello\n--q\n${part}--q--\n`,
  );
  expect(files.map(({ bytes }) => String(bytes))).toEqual([pieces.join("")]);
});

describe("addresses", () => {
  test.each([
    ["a@x.example", ["a@x.example"]],
    ["Acme <a@x.example>, b@x.example", ["Acme <a@x.example>", "b@x.example"]],
    ['"Acme, Inc." <a@x.example>', ['"Acme, Inc." <a@x.example>']],
    ['"a \\"quoted\\" name" <a@x.example>', ['"a \\"quoted\\" name" <a@x.example>']],
    ["=?utf-8?q?J=C3=BCrgen?= <a@x.example>", ['"Jürgen" <a@x.example>']],
    ["=?utf-8?b?SsO8?= =?utf-8?q?rgen?= <a@x.example>", ['"Jürgen" <a@x.example>']],
    ["=?utf-8?q?a=40b=2C_c?= <a@x.example>", ['"a@b, c" <a@x.example>']],
    ["a@x.example (a comment, with (another) in it)", ["a@x.example"]],
    ["Team: a@x.example, B <b@x.example>; c@x.example", ["a@x.example", "B <b@x.example>", "c@x.example"]],
    ["undisclosed-recipients:;", []],
    ['"a b"@x.example', ['"a b"@x.example']],
    [",, ,", []],
    ["root", ["root"]],
  ])("%s", (text, expected) => expect(addressesIn(text)).toEqual(expected));
});

test.each([1, 2, 10])("a thousand addresses may be shown in %i fields of a name, and no more", (count) => {
  const field = `Cc: ${Array(1_000 / count)
    .fill("a@b.example")
    .join(", ")}\n`;
  const { shown } = read(`${field.repeat(count)}${HEAD}\nHello`);
  expect(shown?.cc).toHaveLength(1_000);
  expect(() => read(`${field.repeat(count)}Cc: b@b.example\n${HEAD}\nHello`)).toThrow(
    "at most 1000 addresses",
  );
});

test("what servers and mailboxes before us wrote about the message ends here, and is no reason to refuse it", () => {
  const written = [
    "Received-SPF: pass",
    "X-Received: by 2002:a05:1",
    "Authentication-Results: mx.example; dkim=pass",
    "X-Authentication-Results: mx.example; dkim=pass",
    "ARC-Seal: i=1; a=rsa-sha256",
    "ARC-Message-Signature: i=1",
    "ARC-Authentication-Results: i=1; mx.example",
    "DomainKey-Signature: a=rsa-sha1",
    "X-Google-DKIM-Signature: v=1",
    "DKIM-Filter: OpenDKIM",
    "Delivered-To: one@example.net",
    "Envelope-To: one@example.net",
    "Delivery-Date: Sun, 22 Nov 2026 06:00:00 +0000",
    "Status: RO",
    "Lines: 3",
    "X-Original-To: one@example.net",
    "X-Original-To: two@example.net",
    "X-Spam-Status: No",
    "X-Cron-Env: <SHELL=/bin/sh>",
    "X-Cron-Env: <HOME=/root>",
  ];
  const { body } = read(`${HEAD}${written.join("\n")}\nX-Order: 1042\n\nHello\n`);
  expect(body.headers).toEqual({ "X-Order": "1042" });
});

describe("encoded words", () => {
  test.each([
    ["plain =text?=", "plain =text?="],
    ["=?iso-8859-1?q?Gr=FC=DFe?= und =?UTF-8?B?w6Q=?=", "Grüße und ä"],
    // one character in two words
    ["=?utf-8?b?w6TD?= =?utf-8?b?pA==?=", "ää"],
    ["=?utf-8?q?a?= =?iso-8859-1?q?=E4?=", "aä"],
    ["=?iso-2022-jp?B?GyRCJDMkcxsoQg==?=", "こん"],
    ["=?nobody-knows?q?a=C3=A4?=", "aä"],
    ["=?utf-8*de?q?a?=", "a"],
  ])("%s", (text, expected) => expect(decodeWords(text)).toBe(expected));
});

describe("parameters", () => {
  test.each([
    ['text/plain; charset="utf-8"', "charset", "utf-8"],
    ["TEXT/Plain;  Charset = utf-8 ; x=y", "charset", "utf-8"],
    ["a/b; filename*=utf-8''%E2%82%AC%20rates.pdf", "filename", "€ rates.pdf"],
    ["a/b; filename*0*=utf-8''%E2%82; filename*1*=%AC; filename*2=.pdf", "filename", "€.pdf"],
    ['a/b; filename="=?utf-8?q?=E2=82=AC=2Epdf?="', "filename", "€.pdf"],
    ['a/b; filename="a \\"b\\"; c"', "filename", 'a "b"; c'],
    ["a/b; filename=first; filename=second", "filename", "first"],
    ["a/b; filename=plain; filename*=utf-8''exact", "filename", "exact"],
  ])("%s", (text, name, expected) => expect(structured(text).parameters.get(name)).toBe(expected));
});

describe("texts", () => {
  const typed = (type: string, body: string, more = "") => `${HEAD}Content-Type: ${type}\n${more}\n${body}`;
  test.each([
    ["no type at all", `${HEAD}\nThanks\n`, { text: "Thanks\n" }],
    ["no body", HEAD, { text: "" }],
    ["HTML alone", typed("text/html", "<p>a</p>"), { html: "<p>a</p>" }],
    [
      "quoted-printable with soft breaks, blanks on the way and kept ones",
      typed("text/plain", "a=3Db =\nc  \nd=20\n", "Content-Transfer-Encoding: quoted-printable\n"),
      { text: "a=b c\nd \n" },
    ],
    [
      "flowed lines",
      typed("text/plain; format=flowed", "one \ntwo\n> quoted \n> lines\n-- \nsignature\n"),
      { text: "one two\n> quoted \n> lines\n-- \nsignature\n" },
    ],
    [
      "alternatives",
      typed(
        "multipart/alternative; boundary=b",
        "--b\n\nplain\n--b\nContent-Type: text/html\n\n<p>a</p>\n--b--\n",
      ),
      { text: "plain", html: "<p>a</p>" },
    ],
    [
      "a footer after alternatives is in both",
      typed(
        "multipart/mixed; boundary=m",
        "--m\nContent-Type: multipart/alternative; boundary=b\n\n--b\n\nplain\n--b\nContent-Type: text/html\n\n<p>a</p>\n--b--\n--m\n\n<footer>\n--m--",
      ),
      {
        text: "plain\n<footer>",
        html: '<p>a</p>\n<div style="white-space: pre-wrap">&lt;footer&gt;</div>',
      },
    ],
    ["no last boundary", typed("multipart/mixed; boundary=b", "--b\n\nplain\n"), { text: "plain\n" }],
  ])("%s", (_, message, expected) => {
    const { text, html } = read(message).body;
    expect({ ...(text !== undefined && { text }), ...(html !== undefined && { html }) }).toEqual(expected);
  });

  test("charsets, also one that is claimed wrongly", () => {
    const of = (charset: string, bytes: Buffer) =>
      read(
        Buffer.concat([
          Buffer.from(
            `From: a@example.com\r\nTo: one@example.net\r\nContent-Type: text/plain; charset=${charset}\r\n\r\n`,
          ),
          bytes,
        ]),
      ).body.text;
    expect(of("iso-8859-15", Buffer.from([0xa4]))).toBe("€");
    expect(of("koi8-r", Buffer.from([0xc1]))).toBe("а");
    expect(of("utf-16le", Buffer.from("ä", "utf16le"))).toBe("ä");
    expect(of("us-ascii", Buffer.from("ä"))).toBe("ä");
    expect(of("nonsense", Buffer.from([0xe4]))).toBe("ä");
    expect(of("utf-8", Buffer.from("\ufeffa"))).toBe("a");
  });
});

test("encodings and types may have comments, and an encoding that is empty is none", () => {
  const text = (fields: string, body: string) => read(`${HEAD}${fields}\n\n${body}`).body.text;
  expect(text("Content-Transfer-Encoding: 7bit (as ever)", "a=3D")).toBe("a=3D");
  expect(text("Content-Transfer-Encoding: Base64;", "YQ==")).toBe("a");
  expect(text("Content-Transfer-Encoding:", "a")).toBe("a");
  expect(() => text("Content-Transfer-Encoding: 7bi", "a")).toThrow("not known");
  const file = read(`${HEAD}Content-Type: application/pdf (a file); charset=x\n\n%PDF`).body;
  expect(file.attachments).toMatchObject([{ filename: "attachment-1.pdf" }]);
});

test("a container whose boundary occurs nowhere is refused, unless it is empty", () => {
  const typed = `${HEAD}Content-Type: multipart/mixed; boundary=a\n`;
  expect(() => read(`${typed}\n--b\n\nHello\n--b--\n`)).toThrow("boundary");
  const inner = "Content-Type: multipart/alternative; boundary=inner\n\nHello\n";
  expect(() => read(`${typed}\n--a\n${inner}--a--\n`)).toThrow("boundary");
  expect(read(`${typed}\nan empty one\n--a--\n`).body.text).toBe("");
  expect(read(`${typed}\n \n`).body.text).toBe("");
});

test("attached messages and calendar entries stay as they are", () => {
  const inner = "From: b@example.org\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\ninner\n--b--";
  const { body, files } = read(
    `${HEAD}Content-Type: multipart/mixed; boundary=m\n\n--m\n\nouter\n--m\nContent-Type: message/rfc822\n\n${inner}\n--m\n` +
      "Content-Type: text/calendar; method=REQUEST; charset=utf-8\nContent-ID: <c@x>\n\nBEGIN:VCALENDAR\n--m--",
  );
  expect(body.text).toBe("outer");
  expect(body.attachments).toEqual([
    { filename: "attachment-1.eml", content: "", content_type: "message/rfc822" },
    {
      filename: "attachment-2.ics",
      content: "",
      content_type: 'text/calendar; method="REQUEST"; charset="utf-8"',
      content_id: "c@x",
    },
  ]);
  expect(String(files[0]?.bytes)).toBe(inner.replaceAll("\n", "\r\n"));
});

test("the same e-mail sent again has the same digest, another one has not", () => {
  const keyed = (more: string, body = "x") =>
    read(`${HEAD}Resend-Idempotency-Key: k\n${more}\n${body}`).digest;
  const first = keyed("Message-ID: <1@a>\nDate: Sun, 22 Nov 2026 06:00:00 +0000\n");
  expect(keyed("Message-ID: <2@a>\nDate: Sun, 22 Nov 2026 06:05:00 +0000\n")).toBe(first);
  expect(keyed("Message-ID: <2@a>\n", "y")).not.toBe(first);
  expect(keyed("X-A: 1\n")).not.toBe(first);
});

test("a message that is cut anywhere is the same", () => {
  const wire = "..a\r\n.\tb\r\n...\r\n\r\n. \r\n.\r\nNEXT";
  for (let cut = 0; cut <= wire.length; cut++) {
    const reader = new MessageReader();
    const bytes = new MessageBytes();
    let isOver = false;
    let rest = "";
    for (const piece of [wire.slice(0, cut), wire.slice(cut)]) {
      const chunk = Buffer.from(piece);
      const end: number = isOver ? 0 : reader.read(chunk, (part) => bytes.add(part));
      isOver ||= end >= 0;
      if (isOver) rest += chunk.toString("utf8", end);
    }
    expect(String(bytes.whole())).toBe(".a\r\n\tb\r\n..\r\n\r\n \r\n");
    expect(rest).toBe("NEXT");
    expect(reader.isMalformed).toBe(false);
  }
});

test("bytes that come in pieces of any size are whole in the end", () => {
  for (const size of [1, 700, 65_536, 1_500_000]) {
    const all = Buffer.alloc(2_500_000, "0123456789");
    const bytes = new MessageBytes();
    for (let at = 0; at < (size === 1 ? 10_000 : all.length); at += size)
      bytes.add(all.subarray(at, at + size));
    const whole = bytes.whole();
    expect(whole.length).toBe(bytes.length);
    expect(whole.equals(all.subarray(0, whole.length))).toBe(true);
  }
});

test("a long reason is several lines of one reply", () => {
  const lines = replyLines("554 5.6.0", `${"word ".repeat(200)}end\r\n250 Ok`).split("\r\n");
  expect(lines.length).toBeGreaterThan(2);
  for (const line of lines.slice(0, -1)) expect(line).toMatch(/^554-5\.6\.0 .{1,400}$/);
  expect(lines.at(-1)).toMatch(/^554 5\.6\.0 .*end\?\?250 Ok$/);
});

test.each([64, 30_000])("variables that are nested %i deep are refused for good", (levels) => {
  const nested = `${"[".repeat(levels)}${"]".repeat(levels)}`;
  const own = `X-Postrider-Template: a\nX-Postrider-Variables: {"a":${nested}}\nResend-Idempotency-Key: k\n`;
  expect(() => read(`${HEAD}${own}\n`)).toThrow("`X-Postrider-Variables` header is nested too deeply");
});
