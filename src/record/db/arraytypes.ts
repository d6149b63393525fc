/**
 * Array types as parameters and in results. postgres.js learns them with a query of its own on every new
 * connection; nobody awaits that query, so its failure ended the process. Here they are given: a type that is
 * missing arrives as text, and an array given for it is refused by Postgres. Arrays have one dimension.
 */
import type { PostgresType } from "postgres";
import { parseInTurns } from "./inturns.ts";

type Element = string | number | boolean | Date | null;
type Read = (text: string) => Element;

const asText: Read = (text) => text;
const asNumber: Read = (text) => Number(text);

/**
 * The oids of the array types are the same in every Postgres. Elements are read as the driver reads the
 * scalar.
 */
const ARRAY_TYPES: Record<string, { oid: number; read: Read }> = {
  bool: { oid: 1000, read: (text) => text === "t" },
  int2: { oid: 1005, read: asNumber },
  int4: { oid: 1007, read: asNumber },
  text: { oid: 1009, read: asText },
  varchar: { oid: 1015, read: asText },
  int8: { oid: 1016, read: asText },
  float4: { oid: 1021, read: asNumber },
  float8: { oid: 1022, read: asNumber },
  timestamptz: { oid: 1185, read: (text) => new Date(text) },
  numeric: { oid: 1231, read: asText },
  uuid: { oid: 2951, read: asText },
};

export function arrayTypes(): Record<string, PostgresType> {
  return Object.fromEntries(
    Object.entries(ARRAY_TYPES).map(([name, { oid, read }]) => [
      `${name}s`,
      {
        to: oid,
        from: [oid],
        serialize: writeArray,
        parse: parseInTurns((text) => readArray(text, read)),
      },
    ]),
  );
}

/** A text is an array already, as Postgres writes it. */
function writeArray(value: readonly Element[] | string): string {
  return typeof value === "string" ? value : `{${value.map(writeElement).join()}}`;
}

function writeElement(element: Element): string {
  if (element === null) return "null";
  // Postgres refuses this text as an array; an error thrown here would reject another statement than this one
  if (element === undefined) return '"an element is undefined';
  const text = element instanceof Date && !Number.isNaN(+element) ? element.toISOString() : String(element);
  return `"${text.replace(/["\\]/g, "\\$&")}"`;
}

const ELEMENT = /"((?:[^"\\]|\\.)*)"|[^,]+/gs;

function readArray(text: string, read: Read): Element[] {
  return Array.from(text.slice(1, -1).matchAll(ELEMENT), ([whole, quoted]) => {
    if (quoted !== undefined) return read(quoted.replace(/\\(.)/gs, "$1"));
    return whole === "NULL" ? null : read(whole);
  });
}
