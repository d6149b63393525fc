import PostalMime from "postal-mime";
import { describe, expect, test } from "vitest";
import { type Mailbox, parseMailbox } from "../../src/address.ts";
import { compose, type MessageContent, needsUtf8, UnwritableMessage } from "../../src/message/compose.ts";

function mailboxOf(text: string): Mailbox {
  const mailbox = parseMailbox(text);
  if (mailbox === null) throw new Error(`no mailbox: ${text}`);
  return mailbox;
}

function letter(changes: Partial<MessageContent> = {}): MessageContent {
  return {
    messageId: "019a9c3e-7c1b-7def-8abc-0123456789ab@mail.example.com",
    date: new Date("2026-11-20T20:07:38.123Z"),
    from: mailboxOf("Shop <shop@example.com>"),
    to: [mailboxOf("jane@example.org")],
    cc: [],
    replyTo: [],
    subject: "Hello",
    html: null,
    text: "Hello Jane",
    headers: {},
    attachments: [],
    ...changes,
  };
}

/** A letter without attachments is written at once. */
function written(changes: Partial<MessageContent> = {}): string {
  const message = compose(letter(changes));
  if (!Buffer.isBuffer(message)) throw new Error("not written at once");
  return message.toString();
}

function escaped(text: string): string {
  return text.replace(/[^A-Za-z0-9]/g, "\\$&");
}

function field(name: string, changes: Partial<MessageContent>): string {
  return new RegExp(`^${name}:(?:.*\\r\\n[ \\t])*.*$`, "m").exec(written(changes))?.[0] ?? "";
}

describe("shapes", () => {
  test("text alone", () => {
    expect(written()).toBe(
      [
        "From: Shop <shop@example.com>",
        "To: jane@example.org",
        "Subject: Hello",
        "Message-ID: <019a9c3e-7c1b-7def-8abc-0123456789ab@mail.example.com>",
        "Date: Fri, 20 Nov 2026 20:07:38 +0000",
        "MIME-Version: 1.0",
        "Content-Type: text/plain; charset=utf-8",
        "Content-Transfer-Encoding: 7bit",
        "",
        "Hello Jane",
        "",
      ].join("\r\n"),
    );
  });

  test("html with the text derived from it", () => {
    const message = written({ html: "<p>Hello <b>Jane</b></p>", text: null });
    expect(message.slice(message.indexOf("Content-Type"))).toBe(
      [
        "Content-Type: multipart/alternative;",
        ' boundary="=_019a9c3e7c1b7def8abc0123456789abmailexam"',
        "",
        "--=_019a9c3e7c1b7def8abc0123456789abmailexam",
        "Content-Type: text/plain; charset=utf-8",
        "Content-Transfer-Encoding: 7bit",
        "",
        "Hello Jane",
        "--=_019a9c3e7c1b7def8abc0123456789abmailexam",
        "Content-Type: text/html; charset=utf-8",
        "Content-Transfer-Encoding: 7bit",
        "",
        "<p>Hello <b>Jane</b></p>",
        "--=_019a9c3e7c1b7def8abc0123456789abmailexam--",
        "",
      ].join("\r\n"),
    );
  });

  test("an empty text leaves html alone", () => {
    const message = written({ html: "<p>Hello</p>", text: "" });
    expect(message).toContain("Content-Type: text/html; charset=utf-8\r\n");
    expect(message).not.toContain("text/plain");
  });

  test("html that has no text leaves html alone", () => {
    expect(written({ html: '<img src="x.png">', text: null })).not.toContain("text/plain");
  });

  test("a letter without any body is an empty text", () => {
    expect(written({ text: null })).toMatch(/Content-Type: text\/plain; charset=utf-8\r\n.*\r\n\r\n\r\n$/);
  });

  test("the boundary is the letter's own, and no text can hold it", () => {
    const boundary = "=_019a9c3e7c1b7def8abc0123456789abmailexam";
    const message = written({ html: `--${boundary}--`, text: `--${boundary}_1` });
    expect(message).toContain(`boundary="${boundary}_2"`);
    expect(written({ html: "<p>", text: "x" })).toBe(written({ html: "<p>", text: "x" }));
  });
});

describe("bodies", () => {
  test.each([
    ["ASCII with lines under 998 octets", "a".repeat(998), "7bit"],
    ["a line of 999 octets", "a".repeat(999), "quoted-printable"],
    ["a few characters beyond ASCII", "Grüße aus dem schönen München, wie geht es dir?", "quoted-printable"],
    ["mostly characters beyond ASCII", "ご注文ありがとうございます", "base64"],
    ["control characters", `bell \x07 ${"a".repeat(40)}`, "quoted-printable"],
    ["equals signs by the hundred, in ASCII", "=".repeat(100), "7bit"],
  ])("%s", async (_, text, encoding) => {
    expect(field("Content-Transfer-Encoding", { text })).toBe(`Content-Transfer-Encoding: ${encoding}`);
    expect((await PostalMime.parse(written({ text }))).text?.trimEnd()).toBe(text);
  });

  test("every line break becomes CRLF", () => {
    expect(written({ text: "a\rb\nc\r\nd\n\re" })).toMatch(/\r\n\r\na\r\nb\r\nc\r\nd\r\n\r\ne\r\n$/);
  });

  test("quoted-printable keeps white space at the end of lines", () => {
    expect(written({ text: "é \nfor certain \t\nthis is a line of text" })).toContain(
      "=C3=A9=20\r\nfor certain =09\r\nthis is a line of text\r\n",
    );
  });

  test("a line of 100 KB arrives whole", async () => {
    for (const text of [
      "a".repeat(100_000),
      "é".repeat(50_000),
      `${"word ".repeat(20_000)}ü`,
      "=".repeat(100_000),
    ]) {
      const message = (await compose(letter({ text, html: text }))).toString();
      const read = await PostalMime.parse(message);
      expect(read.text?.trimEnd()).toBe(text.trimEnd());
      expect(Math.max(...message.split("\r\n").map((line) => line.length))).toBeLessThanOrEqual(76);
    }
  });

  test("dots in front are left to the SMTP client", () => {
    expect(written({ text: ".\n..\n.x" })).toMatch(/\r\n\r\n\.\r\n\.\.\r\n\.x\r\n$/);
  });
});

describe("addresses", () => {
  test("fold between mailboxes", () => {
    const to = ["a", "b", "c", "d"].map((name) => mailboxOf(`Someone Called ${name} <${name}@example.com>`));
    expect(field("To", { to })).toBe(
      [
        "To: Someone Called a <a@example.com>, Someone Called b <b@example.com>,",
        " Someone Called c <c@example.com>, Someone Called d <d@example.com>",
      ].join("\r\n"),
    );
  });

  test("names are bare, quoted or encoded as they need", () => {
    expect(field("From", { from: mailboxOf('"Doe, Jane" <j@x.com>') })).toBe('From: "Doe, Jane" <j@x.com>');
    expect(field("From", { from: mailboxOf('"a \\"b\\" \\\\" <j@x.com>') })).toBe(
      'From: "a \\"b\\" \\\\" <j@x.com>',
    );
    expect(field("From", { from: mailboxOf("=?utf-8?q?x?= <j@x.com>") })).toBe(
      "From: =?UTF-8?B?PT91dGYtOD9xP3g/PQ==?= <j@x.com>",
    );
    expect(field("From", { from: mailboxOf("Renée Dupont <r@x.com>") })).toBe(
      "From: =?UTF-8?Q?Ren=C3=A9e_Dupont?= <r@x.com>",
    );
    expect(field("From", { from: mailboxOf("山田 <y@例え.jp>") })).toBe(
      "From: =?UTF-8?B?5bGx55Sw?= <y@xn--r8jz45g.jp>",
    );
    expect(field("To", { to: [mailboxOf('"a b"@x.com')] })).toBe('To: <"a b"@x.com>');
  });

  test("cc and reply-to are written only where there are any", () => {
    expect(written()).not.toMatch(/^(?:Cc|Reply-To|Bcc):/m);
    const others = { cc: [mailboxOf("c@x.com")], replyTo: [mailboxOf("R <r@x.com>")] };
    expect(written(others)).toContain("\r\nCc: c@x.com\r\nReply-To: R <r@x.com>\r\n");
  });

  test("only a local part beyond ASCII needs SMTPUTF8", () => {
    const international = letter({ replyTo: [mailboxOf("用户@例え.jp")] });
    expect(needsUtf8(international)).toBe(true);
    expect(compose(international).toString()).toContain("\r\nReply-To: 用户@xn--r8jz45g.jp\r\n");
    expect(needsUtf8(letter({ to: [mailboxOf("山田 <y@例え.jp>")] }))).toBe(false);
  });
});

describe("subject and given fields", () => {
  test("fold at spaces, and nowhere else", () => {
    const subject = `${"word ".repeat(20)}${"x".repeat(100)} end`;
    expect(field("Subject", { subject }).split("\r\n")).toEqual([
      `Subject: ${"word ".repeat(13)}`.trimEnd(),
      ` ${"word ".repeat(7)}`.trimEnd(),
      ` ${"x".repeat(100)}`,
      " end",
    ]);
  });

  test("a run of spaces stays one, and no line is folded in it", async () => {
    const subject = `${"x".repeat(60)}    ${"y".repeat(30)} ${"z".repeat(30)}  end`;
    expect((await PostalMime.parse(written({ subject }))).subject).toBe(subject);
    expect(field("Subject", { subject }).split("\r\n")).toEqual([
      `Subject: ${"x".repeat(60)}    ${"y".repeat(30)}`,
      ` ${"z".repeat(30)}  end`,
    ]);
  });

  test("encoded words hold whole characters and at most 75 octets each", () => {
    const lines = field("Subject", { subject: "🚀".repeat(60) }).split("\r\n");
    expect(lines.length).toBeGreaterThan(1);
    for (const line of lines) {
      expect(line.length).toBeLessThanOrEqual(76);
      const payload = /=\?UTF-8\?B\?(.*)\?=$/.exec(line)?.[1] ?? "";
      expect(Buffer.from(payload, "base64").toString()).toMatch(/^(?:🚀)+$/u);
    }
  });

  test("an unbroken token too long for any line is encoded", async () => {
    const token = "x".repeat(3_000);
    const read = await PostalMime.parse(written({ subject: token, headers: { "X-Token": token } }));
    expect(read.subject).toBe(token);
    expect(field("X-Token", { headers: { "X-Token": token } })).toContain("=?UTF-8?Q?xxx");
  });

  test("what looks like an encoded word in the subject arrives as it looks", async () => {
    const subject = "=?utf-8?q?caf=C3=A9?=";
    expect((await PostalMime.parse(written({ subject }))).subject).toBe(subject);
  });

  test("a given field in ASCII is not touched: it may be structured, or encoded already", () => {
    const headers = {
      "List-Unsubscribe": `<https://x.com/${"u".repeat(200)}>, <mailto:u@x.com>`,
      "X-Encoded": "=?utf-8?q?caf=C3=A9?=",
    };
    expect(field("List-Unsubscribe", { headers })).toBe(
      `List-Unsubscribe: <https://x.com/${"u".repeat(200)}>,\r\n <mailto:u@x.com>`,
    );
    expect(field("X-Encoded", { headers })).toBe("X-Encoded: =?utf-8?q?caf=C3=A9?=");
  });

  test("no text starts a field of its own", () => {
    const attack = "x\r\nBcc: thief@x.com\r\n\r\nbody";
    const message = written({
      subject: attack,
      from: { ...mailboxOf("a@x.com"), name: attack },
      headers: { "X-A": attack },
    });
    expect(message).not.toMatch(/^Bcc/m);
    expect(message.slice(0, message.indexOf("\r\n\r\n")).split("\r\n")).toHaveLength(9);
  });

  test.each(["Subject", "bcc", "Content-Type", "X Y", "X:", "", "X\r\nBcc"])("refused: %j", (name) => {
    expect(() => compose(letter({ headers: { [name]: "x" } }))).toThrow(UnwritableMessage);
  });
});

describe("message id and date", () => {
  test("brackets are optional, and nothing else gets in", () => {
    expect(written({ messageId: "<a@x.com>" })).toContain("\r\nMessage-ID: <a@x.com>\r\n");
    for (const messageId of ["", "a b@x.com", "a>\r\nBcc: x", "ü@x.com"]) {
      expect(() => compose(letter({ messageId }))).toThrow(UnwritableMessage);
    }
  });

  test("an invalid date is refused", () => {
    expect(() => compose(letter({ date: new Date(Number.NaN) }))).toThrow(UnwritableMessage);
  });
});

describe("attachments", () => {
  const pdf = {
    filename: "Rechnung März.pdf",
    content: Buffer.from([0, 1, 2, 253, 254, 255]),
    contentType: null,
    contentId: null,
  };

  test("arrive with name, type and content", async () => {
    const read = await PostalMime.parse(
      await compose(letter({ html: "<p>x</p>", text: null, attachments: [pdf] })),
    );
    expect(read).toMatchObject({ subject: "Hello", html: "<p>x</p>\n", text: "x\n" });
    expect(read.attachments).toMatchObject([
      { filename: "Rechnung März.pdf", mimeType: "application/pdf", disposition: "attachment" },
    ]);
    expect(Buffer.from(read.attachments[0]?.content as ArrayBuffer)).toEqual(pdf.content);
  });

  test.each<[filename: string, written: string | RegExp]>([
    ["plain.pdf", 'name="plain.pdf"'],
    ["100% sure; really, (yes).txt", 'name="100% sure; really, (yes).txt"'],
    ["März.pdf", "name*=utf-8''M%C3%A4rz.pdf"],
    ['the "best" \\ of.txt', "name*=utf-8''the%20%22best%22%20%5C%20of.txt"],
    ["it's 5*4 – or (not).txt", "name*=utf-8''it%27s%205%2A4%20%E2%80%93%20or%20%28not%29.txt"],
    ["👩‍👩‍👧‍👦.png", /name\*0\*=utf-8''(?:%F0|%E2).*;\r\n {1,8}name\*1\*=(?:%F0|%E2).*\.png\r\n/s],
    [`${"long ".repeat(40)}.txt`, /name\*0\*=utf-8''long%20long.*;\r\n {1,8}name\*1\*=/],
    ["見積書".repeat(80), /name\*0\*=utf-8''%E8%A6%8B.*;\r\n {1,8}name\*1\*=%/],
  ])("the file name %s is a parameter that a strict parser reads", async (filename, written) => {
    const message = await compose(letter({ attachments: [{ ...pdf, filename }] }));
    const head = message.toString("latin1").split("\r\n\r\n")[2] as string;
    expect(message.toString("latin1")).not.toContain("=?");
    expect(head.split("\r\n").filter((line) => line.length > 76)).toEqual([]);
    for (const prefix of ["", "file"]) {
      const pattern = typeof written === "string" ? new RegExp(`${prefix}${escaped(written)}\r\n`) : written;
      expect(`${head}\r\n`).toMatch(pattern);
    }
    const read = await PostalMime.parse(message);
    expect(read.attachments).toMatchObject([{ filename, mimeType: expect.any(String) }]);
  });

  test("a file name that looks like an encoded word is not written as one", async () => {
    const message = await compose(letter({ attachments: [{ ...pdf, filename: "=?utf-8?Q?evil?=.exe" }] }));
    expect(message.toString("latin1")).toContain(
      ";\r\n filename*=utf-8''%3D%3Futf-8%3FQ%3Fevil%3F%3D.exe\r\n",
    );
  });

  test("control characters in a file name become spaces, and a name of nothing else is replaced", async () => {
    const names = ["a\r\nb\tc\0.txt", "\ufeffd\ud800.txt", "\r\n"];
    const attachments = names.map((filename) => ({ ...pdf, filename }));
    const read = await PostalMime.parse(await compose(letter({ attachments })));
    expect(read.attachments.map(({ filename }) => filename)).toEqual([
      "a b c .txt",
      "d\ufffd.txt",
      "attachment",
    ]);
  });

  test("a content type keeps its parameters, but no name of its own and nothing malformed", async () => {
    const types = {
      "text/csv; charset=utf-8;header=present": "text/csv; charset=utf-8; header=present",
      'text/calendar; method="REQUEST"; name="a.ics"; NAME*0=b': 'text/calendar; method="REQUEST"',
      'text/plain; a="b; c=d': "text/plain",
      'text/plain; title="=?utf-8?Q?a?="; charset=utf-8': "text/plain; charset=utf-8",
      "text/plain; charset=utf-8; charset=latin1": "text/plain; charset=utf-8",
      "text/plain;": "text/plain",
    };
    for (const [contentType, kept] of Object.entries(types)) {
      const message = await compose(letter({ attachments: [{ ...pdf, filename: "x.txt", contentType }] }));
      const [type, ...parameters] = kept.split("; ");
      const field = [`Content-Type: ${type}`, ...parameters, 'name="x.txt"'].join(";\r\n ");
      expect(message.toString("latin1")).toContain(`\r\n${field}\r\n`);
    }
  });

  test("an image with a content id stands beside the html that shows it", async () => {
    const logo = { ...pdf, filename: "logo.png", contentId: "logo" };
    const message = await compose(
      letter({ html: '<img src="cid:logo">', text: "x", attachments: [logo, pdf] }),
    );
    const read = await PostalMime.parse(message);
    expect(
      read.attachments.map(({ filename, contentId, related }) => [filename, contentId, related]),
    ).toEqual([
      ["logo.png", "<logo>", true],
      ["Rechnung März.pdf", undefined, undefined],
    ]);
    expect(message.toString("latin1")).toMatch(
      /multipart\/mixed.*multipart\/alternative.*multipart\/related/s,
    );
  });

  test("a content id means the same with and without angle brackets", async () => {
    for (const contentId of ["logo@x.com", "<logo@x.com>"]) {
      const read = await PostalMime.parse(
        await compose(letter({ html: '<img src="cid:logo@x.com">', attachments: [{ ...pdf, contentId }] })),
      );
      expect(read.attachments).toMatchObject([{ contentId: "<logo@x.com>", related: true }]);
    }
  });

  test("a mail as attachment, or a type that is none, goes as octets", async () => {
    for (const contentType of [
      "message/rfc822",
      "multipart/mixed; boundary=x",
      "pdf",
      "a/b\r\nBcc: thief@x.com",
    ]) {
      const read = await PostalMime.parse(await compose(letter({ attachments: [{ ...pdf, contentType }] })));
      expect(read.attachments).toMatchObject([
        { filename: pdf.filename, mimeType: "application/octet-stream" },
      ]);
      expect(read.bcc).toBeUndefined();
    }
  });

  test("alone, without any text", async () => {
    const read = await PostalMime.parse(await compose(letter({ text: "", attachments: [pdf] })));
    expect(read.attachments).toHaveLength(1);
    expect(read.text).toBeUndefined();
  });

  test("names and content ids cannot start a field", async () => {
    const attack = { ...pdf, filename: "a\r\nBcc: thief@x.com", contentId: "c\r\nBcc: thief@x.com" };
    const message = await compose(letter({ html: "<p>x</p>", attachments: [attack] }));
    expect(message.toString("latin1")).not.toMatch(/^Bcc/m);
  });

  test("the same letter yields the same octets", async () => {
    const sent = letter({ html: "<p>x</p>", attachments: [pdf] });
    expect((await compose(sent)).equals(await compose(sent))).toBe(true);
  });
});
