/**
 * The body of a letter with attachments, by nodemailer's MailComposer: mixed, related for what the HTML shows by content
 * id, alternative. Of its own header only the Content fields are kept; all others are written by compose.
 *
 * Refuses to open files and URLs. A content type that is none, or one whose part may not be encoded (message, multipart),
 * goes out as octets: the file's name still tells the reader what it is.
 */
import MailComposer from "nodemailer/lib/mail-composer";
import { detectMimeType } from "nodemailer/lib/mime-funcs";
import type { Attachment } from "./compose.ts";
import { withCrlf } from "./mimebody.ts";

const OCTETS = "application/octet-stream";
const CONTENT_TYPE = /^(?!message\/|multipart\/)[\w!#$&^.+-]+\/[\w!#$&^.+-]+(?:;[\x20-\x7e]*)?$/i;
const END_OF_HEAD = "\r\n\r\n";

export type Tree = { /** Content fields, with their line ends. */ fields: string; body: Buffer };

export async function treeOf(
  text: string,
  html: string,
  attachments: readonly Attachment[],
  baseBoundary: string,
): Promise<Tree> {
  const composer = new MailComposer({
    text: withCrlf(text),
    html: withCrlf(html),
    attachments: attachments.map(({ filename, content, contentType, contentId }) => ({
      filename,
      content,
      contentType: typeOf(contentType ?? detectMimeType(filename)),
      cid: contentId === null ? undefined : contentId.replace(/[^!-;=?-~]/g, "_"),
    })),
    baseBoundary,
    newline: "win",
    disableFileAccess: true,
    disableUrlAccess: true,
  });
  const built = await composer.compile().build();
  const headEnd = built.indexOf(END_OF_HEAD);
  const fields = built.toString("latin1", 0, headEnd).split(/\r\n(?![ \t])/);
  return {
    fields: fields
      .filter((field) => /^content-/i.test(field))
      .map((field) => `${field}\r\n`)
      .join(""),
    body: built.subarray(headEnd + END_OF_HEAD.length),
  };
}

function typeOf(contentType: string): string {
  return CONTENT_TYPE.test(contentType) ? contentType : OCTETS;
}
