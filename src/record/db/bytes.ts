/**
 * Bytes in results. A server, a database or a role may prefer either style (`bytea_output`), and the driver
 * reads one of them only: what is in the other would become other bytes.
 */
import type { PostgresType } from "postgres";

const BYTEA_OID = 17;
const ESCAPED = /\\(\\|[0-7]{3})/g;

export const BYTES: PostgresType<Uint8Array> = {
  to: BYTEA_OID,
  from: [BYTEA_OID],
  serialize: (bytes: Uint8Array) => `\\x${Buffer.from(bytes).toString("hex")}`,
  parse: readBytes,
};

function readBytes(text: string): Buffer {
  if (text.startsWith("\\x")) return Buffer.from(text.slice(2), "hex");
  return Buffer.from(text.replace(ESCAPED, unescaped), "latin1");
}

function unescaped(_: string, sign: string): string {
  return sign === "\\" ? sign : String.fromCharCode(Number.parseInt(sign, 8));
}
