import type { MailStream } from "../../rules/stream.ts";
import { boolean, type ShapeFor, text } from "../db/rowshape.ts";

export const mailStreamRow = {
  bulk: boolean,
  stream: text,
} satisfies ShapeFor<MailStream>;
