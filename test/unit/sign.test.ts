import { createHash, createPublicKey, verify } from "node:crypto";
import { describe, expect, test } from "vitest";
import { parseMailbox } from "../../src/address.ts";
import { makeKey } from "../../src/domain/key.ts";
import { compose, type MessageContent } from "../../src/message/compose.ts";
import { relaxedBody, relaxedField, type SigningKey, signed } from "../../src/message/sign.ts";
import { published, verdictsOn } from "../rig/dkim.ts";
import { costOf } from "../rig/held.ts";

const rsa: SigningKey = { domain: "example.com", selector: "one", ...(await makeKey("rsa")) };
const ed25519: SigningKey = { domain: "example.com", selector: "two", ...(await makeKey("ed25519")) };
const keys = [rsa, ed25519];

const mailboxOf = (text: string) => {
  const mailbox = parseMailbox(text);
  if (!mailbox) throw new Error(text);
  return mailbox;
};
const letter = (more: Partial<MessageContent> = {}): MessageContent => ({
  messageId: "0190@example.com",
  date: new Date("2026-11-21T12:00:00Z"),
  from: mailboxOf("Acme <orders@news.example.com>"),
  to: [mailboxOf("one@example.net")],
  cc: [],
  replyTo: [],
  subject: "Order 1",
  html: "<p>Thanks</p>",
  text: null,
  headers: {},
  attachments: [],
  ...more,
});
const attachment = {
  filename: "a.bin",
  content: Buffer.from("x".repeat(500)),
  contentType: null,
  contentId: null,
};

describe("every shape of a composed message verifies", () => {
  const shapes: Record<string, Partial<MessageContent>> = {
    "html with its plain text": {},
    "text alone": { html: null, text: "Hello\nyou" },
    "html alone": { text: "" },
    "both as given": { text: "Hello" },
    "no body": { html: null, text: "" },
    "a body of white space and empty lines": { html: null, text: " \t \n\n \n" },
    "white space at line ends, runs of it, empty lines at the end": {
      html: null,
      text: "a  b\t c \t\nd   \n\n\n \n",
    },
    "dots at line beginnings": { html: null, text: ".\n..\n.a" },
    "lines too long for 7bit": { html: `<p>${"long ".repeat(1_000)}</p>` },
    "text that is not ASCII": { html: "<p>Grüße 日本語 👩‍👩‍👧</p>", subject: "Grüße aus Zürich" },
    "a long subject, folded": { subject: "word ".repeat(80).trim() },
    "a long subject in encoded words": { subject: "日本語".repeat(60) },
    "many receivers": {
      to: Array.from({ length: 30 }, (_, n) => mailboxOf(`"Name, ${n}" <to${n}@example.net>`)),
      cc: [mailboxOf("cc@example.net")],
      replyTo: [mailboxOf("reply@example.com")],
    },
    "addresses in UTF-8": {
      from: mailboxOf("Jürgen <jürgen@example.com>"),
      to: [mailboxOf("用户@例え.jp")],
    },
    "fields of the caller": {
      headers: {
        "List-Unsubscribe": `<https://example.com/u/${"t".repeat(120)}>`,
        "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
        "Feedback-ID": "a:b:c:acme",
        "X-Anything": "  spaced   out\t",
      },
    },
    "the same field twice": { headers: { "List-Id": "a.example.com", "LIST-ID": "b.example.com" } },
    attachments: { attachments: [attachment, { ...attachment, filename: "Rechnung März.txt" }] },
  };
  test.each(Object.entries(shapes))("%s", async (_, shape) => {
    const message = await compose(letter(shape));
    const whole = await signed(message, keys);
    expect(whole.subarray(-message.length).equals(message)).toBe(true);
    expect(await verdictsOn(whole, keys.map(published))).toEqual([
      { result: "pass", domain: "example.com", selector: "one", aligned: true },
      { result: "pass", domain: "example.com", selector: "two", aligned: true },
    ]);
  });
});

describe("what was signed cannot be changed unseen", async () => {
  const whole = (await signed(await compose(letter()), [rsa])).toString();
  const changes: Record<string, string> = {
    "a second From": whole.replace("\r\nFrom:", "\r\nFrom: thief@example.com\r\nFrom:"),
    "another second From, at the end": whole.replace(
      "MIME-Version",
      "From: thief@example.com\r\nMIME-Version",
    ),
    "a second Subject": whole.replace("MIME-Version", "Subject: Won\r\nMIME-Version"),
    "a Reply-To where there was none": whole.replace(
      "MIME-Version",
      "Reply-To: t@example.com\r\nMIME-Version",
    ),
    "the kind of the body": whole.replace("multipart/alternative", "multipart/mixed"),
    "the body": whole.replace("Thanks", "Pay here"),
    "something behind the body": `${whole}more\r\n`,
  };
  test.each(Object.entries(changes))("%s", async (_, changed) => {
    expect(changed).not.toBe(whole);
    const [verdict] = await verdictsOn(Buffer.from(changed), [published(rsa)]);
    expect(verdict?.result).not.toBe("pass");
  });

  test("what the way of a mail may change does no harm", async () => {
    const travelled = `Received: by relay\r\nX-Spam: no\r\n${whole.replace("Subject: Order 1", "subject:  Order\r\n\t1 ")}\r\n\r\n`;
    expect(await verdictsOn(Buffer.from(travelled), [published(rsa)])).toMatchObject([{ result: "pass" }]);
  });
});

test("the same message gets the same signature, on lines of 78 columns at most", async () => {
  const message = await compose(letter({ headers: { "List-Unsubscribe": "<https://example.com/u>" } }));
  const whole = await signed(message, keys);
  expect(whole.equals(await signed(message, keys))).toBe(true);
  const head = whole.toString("latin1", 0, whole.length - message.length);
  expect(Math.max(...head.split("\r\n").map((line) => line.length))).toBeLessThanOrEqual(78);
});

test("neither Bcc nor what relays write is signed, and what readers look at is listed once more than it occurs", async () => {
  const message = Buffer.from(
    "Bcc: b@example.net\r\nReturn-Path: <>\r\nFrom: a@example.com\r\nSubject: x\r\nX-Own: y\r\n\r\nHi\r\n",
  );
  const head = (await signed(message, [ed25519])).toString().replaceAll("\r\n ", "");
  expect(/ ?h=([^;]*);/.exec(head)?.[1]).toBe("subject:from:from:to:cc:reply-to:subject:date:message-id");
});

test("the examples of canonicalisation (RFC 6376, 3.4.5)", () => {
  expect(["A: X", "B : Y\t\r\n\tZ  "].map(relaxedField)).toEqual(["a:X", "b:Y Z"]);
  expect(relaxedBody(" C \r\nD \t E\r\n\r\n\r\n")).toBe(" C\r\nD E\r\n");
  expect(["", "\r\n\r\n", " \t\r\n", "a", "a \t", "a\r\n \r\n"].map(relaxedBody)).toEqual([
    "",
    "",
    "",
    "a\r\n",
    "a\r\n",
    "a\r\n",
  ]);
});

test("octets that only look like white space stay", () => {
  expect(relaxedField("Subject: \xa0x\xa0")).toBe("subject:\xa0x\xa0");
  expect(relaxedBody("\xa0\xa0\x85\r\n")).toBe("\xa0\xa0\x85\r\n");
});

test("canonicalising takes linear time", () => {
  const canonicalise = () => {
    relaxedBody(`${" ".repeat(2_000_000)}x${"\r\n \t".repeat(500_000)}`);
    relaxedField(`X: ${" \t".repeat(1_000_000)}x`);
  };
  expect(costOf(canonicalise, 2_000)).toBeLessThan(2_000);
});

describe("the example of RFC 8463, appendix A", () => {
  const fields = {
    from: "From: Joe SixPack <joe@football.example.com>",
    to: "To: Suzie Q <suzie@shopping.example.net>",
    subject: "Subject: Is dinner ready?",
    date: "Date: Fri, 11 Jul 2003 21:00:37 -0700 (PDT)",
    id: "Message-ID: <20030712040037.46341.5F8J@football.example.com>",
  };
  const body = "Hi.\r\n\r\nWe lost the game.  Are you hungry yet?\r\n\r\nJoe.\r\n";
  const bodyHash = "2jUSOH9NhtVGCQWNr9BrIAPreKQjO6Sn7XIkfJVOzv8=";
  const dataOf = (signature: string) => [...Object.values(fields), signature].map(relaxedField).join("\r\n");

  test("its body hash", () => {
    expect(createHash("sha256").update(relaxedBody(body)).digest("base64")).toBe(bodyHash);
  });

  test("its ed25519 signature", () => {
    const data = dataOf(
      `DKIM-Signature: v=1; a=ed25519-sha256; c=relaxed/relaxed;\r\n d=football.example.com; i=@football.example.com;\r\n q=dns/txt; s=brisbane; t=1528637909; h=from : to :\r\n subject : date : message-id : from : subject : date;\r\n bh=${bodyHash};\r\n b=`,
    );
    const key = createPublicKey({
      key: Buffer.from("MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=", "base64"),
      type: "spki",
      format: "der",
    });
    const signature =
      "/gCrinpcQOoIfuHNQIbq4pgh9kyIK3AQUdt9OdqQehSwhEIug4D11BusFa3bT3FY5OsU7ZbnKELq+eXdp1Q1Dw==";
    const hash = createHash("sha256").update(data).digest();
    expect(verify(null, hash, key, Buffer.from(signature, "base64"))).toBe(true);
  });

  test("its rsa signature", () => {
    const data = dataOf(
      `DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed;\r\n d=football.example.com; i=@football.example.com;\r\n q=dns/txt; s=test; t=1528637909; h=from : to : subject :\r\n date : message-id : from : subject : date;\r\n bh=${bodyHash};\r\n b=`,
    );
    const key = createPublicKey({
      key: Buffer.from(
        "MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDkHlOQoBTzWRiGs5V6NpP3idY6Wk08a5qhdR6wy5bdOKb2jLQiY/J16JYi0Qvx/byYzCNb3W91y3FutACDfzwQ/BC/e/8uBsCR+yz1Lxj+PL6lHvqMKrM3rG4hstT5QjvHO9PzoxZyVYLzBfO2EeC3Ip3G+2kryOTIKT+l/K4w3QIDAQAB",
        "base64",
      ),
      type: "spki",
      format: "der",
    });
    const signature =
      "F45dVWDfMbQDGHJFlXUNB2HKfbCeLRyhDXgFpEL8GwpsRe0IeIixNTe3DhCVlUrSjV4BwcVcOF6+FF3Zo9Rpo1tFOeS9mPYQTnGdaSGsgeefOsk2JzdA+L10TeYt9BgDfQNZtKdN1WO//KgIqXP7OdEFE4LjFYNcUxZQ4FADY+8=";
    expect(verify("sha256", Buffer.from(data), key, Buffer.from(signature, "base64"))).toBe(true);
  });
});
