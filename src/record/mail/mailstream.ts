import type { MailStream } from "../../rules/stream.ts";
import { boolean, type ShapeFor, text } from "../db/rowshape.ts";

/** The columns that say to which stream an e-mail belongs. */
export const mailStreamRow = {
  bulk: boolean,
  stream: text,
} satisfies ShapeFor<MailStream>;
