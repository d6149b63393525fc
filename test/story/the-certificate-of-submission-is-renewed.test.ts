/**
 * A certificate that is renewed while the process runs is the one that the next client gets; the doctor looks
 * at it.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "node:tls";
import { afterAll, expect, test, vi } from "vitest";
import { loadConfig } from "../../src/config.ts";
import { certificateTrouble } from "../../src/submission/certificatecheck.ts";
import { openSubmission } from "../../src/submission/submission.ts";
import { openAuthority } from "../rig/authority.ts";
import { MovableClock } from "../rig/clock.ts";

const NAME = "mail.postrider.test";
const folder = mkdtempSync(join(tmpdir(), "postrider-certificates-"));
const [cert, key] = [join(folder, "cert.pem"), join(folder, "key.pem")];
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function write(made: { cert: string; key: string }): void {
  writeFileSync(cert, made.cert);
  writeFileSync(key, made.key);
}

/** What a client that verifies certificates gets: the serial number, or why it goes. */
function serialAt(port: number, ca: string): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: "127.0.0.1", servername: NAME, ca });
    socket.on("secureConnect", () => {
      resolve(socket.getPeerCertificate().serialNumber);
      socket.destroy();
    });
    socket.on("error", (error) => resolve(error.message));
  });
}

test("the files are read again, and one that does not fit is left aside", async () => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  const authority = openAuthority();
  write(authority.certify(NAME));
  const faults: unknown[] = [];
  const settings = loadConfig({
    SUBMISSION_TLS_PORT: "0",
    SUBMISSION_TLS_CERT: cert,
    SUBMISSION_TLS_KEY: key,
    EHLO_NAME: NAME,
  });
  const role = await openSubmission(settings, {
    door: {
      readKey: () => null,
      admit: () => Promise.reject(new Error("nobody logs in")),
      send: () => Promise.reject(new Error("nobody sends")),
    },
    room: { take: () => false, give: () => {} },
    clock: new MovableClock(),
    onFault: (error) => faults.push(error),
  });
  const port = role.tlsPort as number;
  const first = await serialAt(port, authority.certificate);
  expect(first).toMatch(/^[0-9A-F]+$/);
  expect(certificateTrouble(settings, Date.now())?.detail).toMatch(
    /^the certificate ends in \d days: renew it$/,
  );

  const renewed = authority.certify(NAME);
  writeFileSync(cert, renewed.cert);
  vi.advanceTimersByTime(30_000);
  expect(await serialAt(port, authority.certificate)).toBe(first);
  expect(faults).toHaveLength(1);
  expect(certificateTrouble(settings, Date.now())).toEqual({
    isFatal: true,
    detail: "SUBMISSION_TLS_KEY is not the key of SUBMISSION_TLS_CERT",
  });

  writeFileSync(key, renewed.key);
  vi.advanceTimersByTime(30_000);
  const second = await serialAt(port, authority.certificate);
  expect(second).toMatch(/^[0-9A-F]+$/);
  expect(second).not.toBe(first);
  await role.stop();
  vi.useRealTimers();
});
