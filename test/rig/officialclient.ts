/**
 * The official client, unmodified, in one of its versions. The older ones read where the API is when they are
 * loaded, so each is loaded anew: another test file of the same process may have loaded it for an API of its
 * own.
 */
import { createRequire } from "node:module";

export type OfficialVersion = "resend" | "resend-6-18" | "resend-6-4" | "resend-6-3" | "resend-6-0";

const load = createRequire(import.meta.url);

/** `T`: what the test uses of it; without it, what the newest version declares. */
export function officialClient<T = import("resend").Resend>(
  version: OfficialVersion,
  { url, key }: { url: string; key: string },
): T {
  delete load.cache[load.resolve(version)];
  process.env.RESEND_BASE_URL = `${url}/api/v1`;
  try {
    const { Resend } = load(version) as { Resend: new (key: string) => T };
    return new Resend(key);
  } finally {
    delete process.env.RESEND_BASE_URL;
  }
}
