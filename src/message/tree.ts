/**
 * The body of a message with attachments, or with much text: mixed, alternative, and related for what the
 * HTML shows by content id. A container of one part is left out.
 *
 * Promises: a file name is written as a parameter that RFC 2045 or RFC 2231 allows, and it is the only name
 * of its part. All lines are ASCII and end in CRLF. The event loop is free between every few ms of work.
 *
 * A malformed content type, and one whose part may not be encoded (message, multipart), becomes octets: the
 * file name still tells the reader what it is.
 */
import { detectMimeType } from "nodemailer/lib/mime-funcs";
import { turnIfLate } from "../turn.ts";
import { base64InTurns, textPartInTurns } from "./body.ts";
import { fileNameParameters, parameterField } from "./header.ts";

export type Attachment = {
  filename: string;
  content: Buffer;
  /** null: as the file's name suggests. */
  contentType: string | null;
  /** Where the HTML shows it: `<img src="cid:...">`. */
  contentId: string | null;
};

const OCTETS = "application/octet-stream";
const CONTENT_TYPE_CHARS_MAX = 255;
const CONTENT_TYPE = /^((?!message\/|multipart\/)[\w!#$&^.+-]+\/[\w!#$&^.+-]+)( *;[\x20-\x7e]*)?$/i;
const PARAMETERS = /^(?: *; *[\w!#$%&'*+.^`{|}~-]+=(?:[\w!#$%&'*+.^`{|}~-]+|"[ !#-[\]-~]*"))* *;? *$/;
const PARAMETER = /; *([^=]+)=("[^"]*"|[^ ;]+)/g;

const CRLF = Buffer.from("\r\n");

/** The Content fields with their line ends; the body in pieces, without a line end after it. */
export type MimePart = { fields: string; body: readonly Buffer[] };

/** `boundary` must not occur in either text. */
export async function treeOf(
  text: string,
  html: string,
  attachments: readonly Attachment[],
  boundary: string,
): Promise<MimePart> {
  const isShown = ({ contentId }: Attachment): boolean => html !== "" && Boolean(contentId);
  const shown = await fileParts(attachments.filter(isShown));
  const attached = await fileParts(attachments.filter((one) => !isShown(one)));
  const plain = text === "" ? [] : [await textPartInTurns("text/plain", text)];
  const rich =
    html === "" ? [] : contain("related", boundary, [await textPartInTurns("text/html", html), ...shown]);
  const content = contain("alternative", boundary, [...plain, ...rich]);
  const report = attachments.some(({ contentType }) => contentType === TLS_REPORT);
  const [root] = contain(report ? "report" : "mixed", boundary, [...content, ...attached]);
  return root as MimePart;
}

/** RFC 8460, 5.3: what is attached to a report of this type is the report. */
const TLS_REPORT = "application/tlsrpt+gzip";

function contain(kind: string, stem: string, parts: readonly MimePart[]): readonly MimePart[] {
  if (parts.length < 2) return parts;
  // no boundary may begin with another: some parsers look only at the beginning of a line
  const boundary = `${stem}.${kind}`;
  const parameters = [`boundary="${boundary}"`];
  if (kind === "related") parameters.push('type="text/html"');
  if (kind === "report") parameters.push('report-type="tlsrpt"');
  const body: Buffer[] = [];
  for (const part of parts) body.push(Buffer.from(`--${boundary}\r\n${part.fields}\r\n`), ...part.body, CRLF);
  body.push(Buffer.from(`--${boundary}--`));
  return [{ fields: parameterField("Content-Type", `multipart/${kind}`, parameters), body }];
}

async function fileParts(attachments: readonly Attachment[]): Promise<MimePart[]> {
  const parts: MimePart[] = [];
  for (const one of attachments) {
    const late = turnIfLate();
    if (late) await late;
    parts.push({ fields: fileFields(one), body: await base64InTurns(one.content) });
  }
  return parts;
}

function fileFields({ filename, contentType, contentId }: Attachment): string {
  const { type, parameters } = readType(contentType ?? detectMimeType(filename));
  const disposition = contentId && type.startsWith("image/") ? "inline" : "attachment";
  return (
    parameterField("Content-Type", type, [...parameters, ...fileNameParameters("name", filename)]) +
    parameterField("Content-Disposition", disposition, fileNameParameters("filename", filename)) +
    (contentId ? `Content-ID: <${bareContentId(contentId)}>\r\n` : "") +
    "Content-Transfer-Encoding: base64\r\n"
  );
}

/**
 * Without a name, since the file has its own. Malformed parameters are dropped, those with encoded words, and
 * all but the first of each attribute.
 */
function readType(contentType: string): { type: string; parameters: string[] } {
  const found = contentType.length > CONTENT_TYPE_CHARS_MAX ? null : CONTENT_TYPE.exec(contentType);
  if (found === null) return { type: OCTETS, parameters: [] };
  const [, type = OCTETS, tail = ""] = found;
  const parameters = new Map<string, string>();
  const given = PARAMETERS.test(tail) ? tail.matchAll(PARAMETER) : [];
  for (const [, attribute = "", value = ""] of given) {
    const key = attribute.toLowerCase();
    if (/^name(?:\*|$)/.test(key) || value.includes("=?") || parameters.has(key)) continue;
    parameters.set(key, `${attribute}=${value}`);
  }
  return { type: type.toLowerCase(), parameters: [...parameters.values()] };
}

/** The caller may give it with or without angle brackets. */
function bareContentId(contentId: string): string {
  return contentId.replace(/^<(.+)>$/, "$1").replace(/[^!-;=?-~]/g, "_");
}
