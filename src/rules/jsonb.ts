/**
 * JSON of callers as Postgres keeps it in a jsonb: there a number has all of its digits, and 1e308 has 309.
 */

/**
 * Whether it has more bytes as compact JSON with such numbers, or an object with more fields. Takes no longer
 * for what is a thousand times as long.
 */
export function isJsonbOver(value: unknown, most: number, fieldsMax = Number.POSITIVE_INFINITY): boolean {
  return leftAfter(value, most, fieldsMax) < 0;
}

/** What is left of so many bytes; negative as soon as that is certain. */
function leftAfter(value: unknown, bytes: number, fieldsMax: number): number {
  if (typeof value === "string") return value.length > bytes ? -1 : bytes - bytesOf(value);
  if (typeof value === "number") return bytes - bytesOf(value) - digitsMoreOf(value);
  if (value === null || typeof value !== "object") return bytes - bytesOf(value ?? null);
  return Array.isArray(value)
    ? leftAfterItems(value, bytes, fieldsMax)
    : leftAfterFields(value, bytes, fieldsMax);
}

function leftAfterItems(items: readonly unknown[], bytes: number, fieldsMax: number): number {
  // a bracket or comma before each, and the bracket at the end
  let left = bytes - Math.max(1, items.length) - 1;
  for (let n = 0; n < items.length && left >= 0; n++) left = leftAfter(items[n], left, fieldsMax);
  return left;
}

function leftAfterFields(object: object, bytes: number, fieldsMax: number): number {
  let left = bytes - 2;
  let fields = 0;
  for (const name in object) {
    const value = (object as Record<string, unknown>)[name];
    if (value === undefined) continue;
    if (++fields > fieldsMax) return -1;
    const before = fields === 1 ? 1 : 2; // the colon, and the comma before
    left = leftAfter(value, leftAfter(name, left, fieldsMax) - before, fieldsMax);
    if (left < 0) return left;
  }
  return left;
}

function bytesOf(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value));
}

/** Than the number has in JSON: `1.5e-7` is `0.00000015`. */
function digitsMoreOf(number: number): number {
  if (!Number.isFinite(number)) return Number.POSITIVE_INFINITY;
  const exponent = String(number).split("e")[1];
  return exponent === undefined ? 0 : Math.abs(Number(exponent)) + 2;
}
