/** Signatures as a receiver sees them: verified by a library that shares nothing with the signer. */
import { dkimVerify } from "mailauth/lib/dkim/verify.js";
import { publicPartOf } from "../../src/domain/key.ts";
import { type Published, recordName, recordText } from "../../src/domain/published.ts";
import type { SigningKey } from "../../src/message/sign.ts";

export type Verdict = { result: string; domain: string; selector: string; aligned: boolean };

/** One per signature, in the order of the message; empty when there is none. */
export async function verdictsOn(message: Buffer, published: readonly Published[]): Promise<Verdict[]> {
  const resolver = async (name: string) => {
    const key = published.find((one) => recordName(one) === name);
    if (!key) throw Object.assign(new Error(`no record at ${name}`), { code: "ENOTFOUND" });
    return [[recordText(key)]];
  };
  const { results } = (await dkimVerify(message, { resolver } as object)) as unknown as {
    results: {
      status: { result: string; comment?: string; aligned?: string | false };
      signingDomain?: string;
      selector?: string;
    }[];
  };
  return results.flatMap(({ status, signingDomain, selector }) =>
    signingDomain === undefined || selector === undefined
      ? []
      : [
          {
            result: status.comment ? `${status.result}: ${status.comment}` : status.result,
            domain: signingDomain,
            selector,
            aligned: Boolean(status.aligned),
          },
        ],
  );
}

export function published({ domain, selector, algorithm, key }: SigningKey): Published {
  return { domain, selector, algorithm, publicKey: publicPartOf({ algorithm, key }) };
}
