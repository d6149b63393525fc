/** Passwords of people: scrypt, with its parameters written beside the hash so that they can rise later. */
import { randomBytes, scrypt, timingSafeEqual } from "node:crypto";

const COST = 2 ** 15;
const BLOCK_SIZE = 8;
const PARALLEL = 3;
const HASH_BYTES = 32;
const SALT_BYTES = 16;
const MEMORY_BYTES_MAX = 64 * 1024 * 1024;

export async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(SALT_BYTES);
  return written(salt, await derive(password, salt, COST, BLOCK_SIZE, PARALLEL));
}

/** Of a password that nobody knows. */
export function unknownHash(): string {
  return written(randomBytes(SALT_BYTES), randomBytes(HASH_BYTES));
}

function written(salt: Buffer, hash: Buffer): string {
  return ["scrypt", COST, BLOCK_SIZE, PARALLEL, salt.toString("base64"), hash.toString("base64")].join("$");
}

export async function checkPassword(password: string, kept: string): Promise<boolean> {
  const [scheme, cost, blockSize, parallel, salt = "", hash = ""] = kept.split("$");
  if (scheme !== "scrypt") return false;
  const expected = Buffer.from(hash, "base64");
  const derived = await derive(
    password,
    Buffer.from(salt, "base64"),
    Number(cost),
    Number(blockSize),
    Number(parallel),
  );
  return expected.byteLength === derived.byteLength && timingSafeEqual(expected, derived);
}

function derive(
  password: string,
  salt: Buffer,
  cost: number,
  blockSize: number,
  parallel: number,
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const options = { N: cost, r: blockSize, p: parallel, maxmem: MEMORY_BYTES_MAX };
    scrypt(password.normalize("NFKC"), salt, HASH_BYTES, options, (error, key) =>
      error ? reject(error) : resolve(key),
    );
  });
}
