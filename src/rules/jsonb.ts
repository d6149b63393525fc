/** JSON of callers as Postgres keeps it in a jsonb: there a number has all of its digits, and 1e308 has 309. */

/** Its bytes as compact JSON with such numbers; infinite when one of them is beyond what a number can hold. */
export function jsonbBytes(value: unknown, most: number): number {
  const bytes = Buffer.byteLength(JSON.stringify(value));
  return bytes > most ? bytes : bytes + digitsMoreIn(value);
}

function digitsMoreIn(value: unknown): number {
  if (typeof value === "number") return digitsMoreOf(value);
  if (value === null || typeof value !== "object") return 0;
  let digits = 0;
  for (const name of Object.keys(value)) digits += digitsMoreIn((value as Record<string, unknown>)[name]);
  return digits;
}

/** Than the number has in JSON: `1.5e-7` is `0.00000015`. */
function digitsMoreOf(number: number): number {
  if (!Number.isFinite(number)) return Number.POSITIVE_INFINITY;
  const exponent = String(number).split("e")[1];
  return exponent === undefined ? 0 : Math.abs(Number(exponent)) + 2;
}
