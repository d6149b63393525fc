/** Where a worker takes the mail to, judged before the stores are waited for. */
import { messageOf } from "../../caught.ts";
import { type Config, ConfigError } from "../../config.ts";
import { readSmarthost } from "../../delivery/smarthost.ts";

/**
 * null: mail goes to its receivers. Nobody does that by accident: `direct` must be set, and SMTP_URL must
 * not.
 */
export function smarthostOf({ courier, smtpUrl }: Config): string | null {
  if (courier === "relay" && smtpUrl === null)
    throw new ConfigError(
      "SMTP_URL is not set. Set it to the smarthost that takes the mail, or set COURIER=direct to send to the MX hosts of the recipients.",
    );
  if (courier === "direct" && smtpUrl !== null)
    throw new ConfigError("COURIER=direct needs no smarthost, but SMTP_URL is set. Unset one of them.");
  return smtpUrl;
}

/** What is wrong with it is said before the stores are waited for. */
export function expectSmarthost(config: Config): void {
  const smarthost = smarthostOf(config);
  if (smarthost !== null) asSettings(() => readSmarthost(smarthost, config));
}

/** What it throws is about settings. */
export function asSettings<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw new ConfigError(messageOf(error));
  }
}
