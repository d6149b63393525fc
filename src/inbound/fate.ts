/** What a report says became of one recipient. */
import type { RefusedAt } from "./refusedat.ts";

export type Action = "failed" | "delayed" | "delivered" | "relayed" | "expanded";

/** What became of one recipient. */
export type Fate = {
  /** In lower case; null: the message does not say who. */
  recipient: string | null;
  /** In lower case: the address that failed, where mail to the recipient led to another. */
  behind?: string;
  action: Action;
  /** RFC 3463, as `5.1.1`. */
  status: string | null;
  /** Of the SMTP reply that is quoted. */
  code: number | null;
  text: string;
  /** The host that said so. */
  remote: string | null;
  /** Which command was refused, where that is said. */
  refusedAt?: RefusedAt;
};
