/**
 * Checks that clients can trust the certificate of the submission ports: readable, with its key, in date, for
 * our name.
 */
import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { messageOf } from "../caught.ts";
import { DAY_MS } from "../clock.ts";

const DAYS_LEFT_MIN = 10;

export type CertificateSettings = {
  submissionTlsCert: string | null;
  submissionTlsKey: string | null;
  ehloName: string | null;
};

/** null: all of it holds; else what is wrong, and whether nothing can listen with it. */
export function certificateTrouble(
  { submissionTlsCert, submissionTlsKey, ehloName }: CertificateSettings,
  now: number,
): { isFatal: boolean; detail: string } | null {
  const warns = (detail: string) => ({ isFatal: false, detail });
  if (submissionTlsCert === null && submissionTlsKey === null)
    return warns("SUBMISSION_TLS_CERT is not set: the certificate is self-signed, and clients refuse it");
  if (submissionTlsCert === null || submissionTlsKey === null)
    return { isFatal: true, detail: "SUBMISSION_TLS_CERT and SUBMISSION_TLS_KEY are needed together" };
  try {
    const certificate = new X509Certificate(readFileSync(submissionTlsCert));
    if (!certificate.checkPrivateKey(createPrivateKey(readFileSync(submissionTlsKey))))
      return { isFatal: true, detail: "SUBMISSION_TLS_KEY is not the key of SUBMISSION_TLS_CERT" };
    const daysLeft = Math.floor((Date.parse(certificate.validTo) - now) / DAY_MS);
    if (daysLeft < 0) return warns(`the certificate ended on ${certificate.validTo}: clients refuse it`);
    if (daysLeft < DAYS_LEFT_MIN) return warns(`the certificate ends in ${daysLeft} days: renew it`);
    if (ehloName !== null && certificate.checkHost(ehloName) === undefined)
      return warns(`the certificate is not for ${ehloName} (EHLO_NAME)`);
    return null;
  } catch (error) {
    return { isFatal: true, detail: messageOf(error) };
  }
}
