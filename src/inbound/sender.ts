/**
 * Who wrote a message to a return path: a mail system, or somebody who answers. By its header alone, which
 * anybody can write.
 */
import { type Fields, field, wordsIn } from "./mime.ts";

const CHARS_MAX = 1_000;

/** Names of mailboxes and of senders that only mail systems have. */
const DAEMON =
  /^(?:mail(?:er)?[-_. ]?daemon|mdaemon|post_master|(?:e\d{1,4}_)?smtp[-_. ]?mail[-_. ]?service|mail[-_. ]deliver(?:y|er)?[-_. ](?:sub)?system|system administrator|imss|ndr|microsoftexchange[0-9a-f]{16,40})$/i;
/** Behind these there may be people as well. */
const OFFICE =
  /^(?:post[-_. ]?master|e?mail|mailadm|mx\d*|(?:e?mail|smtp|mta|system|server|inet)[-_. ]?(?:adm(?:in(?:istrator)?)?|gateway|gw\d*|server|system|relay|service)|.{0,40}anti-?virus.{0,40}|(?:internet )?mail(?:er)?[- ](?:delivery|deliver)(?:[- ](?:sub)?system|[- ]service)?|delivery subsystem|microsoft (?:outlook|exchange)|systemadministrat(?:or|ör)|administrateur système|administrador d(?:el|o) sistema|amministratore (?:di|del) sistema|systeembeheerder|administrator systemu|системный администратор|システム管理者|系统管理员|系統管理員|시스템 관리자)$/iu;

/** In the languages of common programs: an answer, or a message that is passed on. */
const ANSWER =
  /^\s{0,20}(?:re|r|aw|antw|antwort|sv|vs|vl|vá|res|rif|ref|odp|pd|ynt|ilt|atb|bls|απ|πρθ|отв|ответ|на|回复|回覆|答复|答覆|返信|회신|fwd?|wg|tr|rv|enc|i|fs|vb|doorst|转发|轉寄|転送|전달|пересл|перенаправлено)\s{0,5}(?:\[\d{1,3}\]|\(\d{1,3}\))?\s{0,5}[:：]/iu;

/** It has no sender, or one that is no person. */
export function isOfDaemon(header: Fields): boolean {
  const { local, name } = senderOf(header);
  return local === "" || DAEMON.test(local) || (DAEMON.test(name) && isNameless(header));
}

/** Perhaps by somebody who looks after one. */
export function isOfMailSystem(header: Fields): boolean {
  const { local, name } = senderOf(header);
  return isOfDaemon(header) || [local, name].some((one) => OFFICE.test(one) || DAEMON.test(one));
}

/** Sent with the null sender, as bounces and many automatic replies are. */
export function isNameless(header: Fields): boolean {
  return /^\s*<>\s*$/.test(field(header, "return-path"));
}

export function isAnswer(header: Fields): boolean {
  return ANSWER.test(wordsIn(header, "subject").slice(0, CHARS_MAX));
}

/** `Mail Delivery System <MAILER-DAEMON@a.example>` or `MAILER-DAEMON@a.example (Mail Delivery System)`. */
function senderOf(header: Fields): { local: string; name: string } {
  const text = wordsIn(header, "from").slice(0, CHARS_MAX).trim();
  const at = [text.lastIndexOf("<"), text.indexOf(" (")].find((place) => place >= 0) ?? text.length;
  const [first, second] = [text.slice(0, at), text.slice(at)];
  const [address, name] = second.startsWith("<") ? [second, first] : [first, second];
  const sign = address.indexOf("@");
  return { local: bare(sign < 0 ? address : address.slice(0, sign)), name: bare(name) };
}

function bare(text: string): string {
  return text.replace(/^[\s"'<(\\]{1,20}|[\s"'>)\\]{1,20}$/g, "");
}
