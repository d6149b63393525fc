/**
 * A TLS report (RFC 8460) in a message that anybody may have written.
 *
 * Promises: nothing throws; what is decompressed is bounded before it is read.
 */
import { gunzipSync } from "node:zlib";
import type { HeardTlsReport } from "../record/transport/tlsreports.ts";
import { readTlsReport } from "../transport/tlsrpt.ts";
import { bytesOf, field, type Part, parameter, partsOf } from "./mime.ts";

/** Read in one turn of the event loop. */
const REPORT_BYTES_MAX = 256 * 1024;
const TYPES: ReadonlySet<string> = new Set(["application/tlsrpt+gzip", "application/tlsrpt+json"]);
const NAME = /\.json(?:\.gz)?$/i;

/** Or why there is none. */
export function readTlsMail(message: Buffer): HeardTlsReport[] | string {
  const attached = partsOf(message).filter(({ isQuoted }) => !isQuoted);
  const part = attached.find(({ type }) => TYPES.has(type)) ?? attached.find(isNamedAsReport);
  if (!part) return "it has no TLS report attached";
  const bytes = bytesOf(part);
  if (bytes[0] !== 0x1f || bytes[1] !== 0x8b) return readTlsReport(bytes.toString("utf8"));
  try {
    return readTlsReport(gunzipSync(bytes, { maxOutputLength: REPORT_BYTES_MAX }).toString("utf8"));
  } catch {
    return `its report cannot be decompressed, or has more than ${REPORT_BYTES_MAX} bytes`;
  }
}

/** Some attach it as any other file. */
function isNamedAsReport({ fields }: Part): boolean {
  const name =
    parameter(field(fields, "content-disposition"), "filename") ||
    parameter(field(fields, "content-type"), "name");
  return NAME.test(name);
}
