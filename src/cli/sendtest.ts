/** `postrider send-test`: sends one e-mail over the usual route and prints the SMTP conversation. */
import { type Mailbox, parseMailbox } from "../address.ts";
import { messageOf } from "../caught.ts";
import { type Config, ConfigError } from "../config.ts";
import { readSmarthost } from "../delivery/smarthost.ts";
import { receiversOf, sendByHand, type WireLine } from "../delivery/testmail.ts";
import { Sealer } from "../domain/key.ts";
import { Signer } from "../domain/signer.ts";
import { newId } from "../ids.ts";
import { compose } from "../message/compose.ts";
import { messageIdOf } from "../record/mail/emails.ts";
import type { Peer } from "../smtp/conversation.ts";
import { type Context, expectWorkspace, requireSecret, settings, withContext } from "./context.ts";
import { CommandError, complain, type OutputOptions, oneLine, print, say } from "./print.ts";

type SendTestOptions = OutputOptions & { to: Mailbox; from?: Mailbox; workspace?: string };

const ARROW = { us: "->", them: "<-", note: "--" } as const;

/** Without a workspace no store is needed. */
export async function sendTest(options: SendTestOptions): Promise<void> {
  if (options.workspace === undefined) await send(settings(), null, options);
  else
    await withContext((context) => sendFrom(context, options.workspace as string, options), { isLong: true });
}

async function sendFrom(context: Context, workspaceId: string, options: SendTestOptions): Promise<void> {
  await expectWorkspace(context, workspaceId);
  await send(context.config, context, options);
}

async function send(config: Config, context: Context | null, options: SendTestOptions): Promise<void> {
  const { to } = options;
  const from = options.from ?? (config.mailFrom === null ? null : parseMailbox(config.mailFrom));
  if (!from) throw new CommandError("There is no sender. Give --from, or set MAIL_FROM.");
  const composed = await composeTest(from, to);
  const message = context ? await signFor(context, options.workspace as string, from, composed) : composed;
  const said: WireLine[] = [];
  const tell = (told: WireLine): void => {
    said.push(told);
    if (!options.json) print(`${ARROW[told.who]} ${oneLine(told.text)}`);
  };
  const peers = await peersFor(config, context, to.domain);
  const envelope = { from: from.address, to: [to.address], utf8: from.utf8 || to.utf8 };
  const began = performance.now();
  const [reply] = await sendByHand(peers, envelope, message, tell);
  const isTaken = reply?.phase === "dot" && reply.code !== null && reply.code < 300;
  const value = {
    delivered: isTaken,
    reply: reply?.text ?? null,
    phase: reply?.phase ?? null,
    host: reply?.via?.host ?? null,
    ip: reply?.via?.ip ?? null,
    tls: reply?.via?.tls ?? null,
    tls_verified: reply?.via?.isVerified ?? false,
    tls_policy: reply?.via?.policy ?? "none",
    duration_ms: Math.round(performance.now() - began),
    conversation: said,
  };
  const under = reply?.via?.tls ? ` over ${reply.via.tls}` : "";
  say(
    options,
    value,
    isTaken
      ? `Taken${under}: ${oneLine(reply.text)}`
      : `Not accepted: ${oneLine(reply?.text ?? "no answer")}`,
  );
  if (!isTaken) process.exitCode = 1;
}

async function composeTest(from: Mailbox, to: Mailbox): Promise<Buffer> {
  const now = Date.now();
  return compose({
    messageId: messageIdOf(newId(now), from),
    date: new Date(now),
    from,
    to: [to],
    cc: [],
    replyTo: [],
    subject: "Test of Postrider",
    html: null,
    text: "This is a test e-mail. Somebody ran `postrider send-test` to see how mail gets here.",
    headers: {},
    attachments: [],
  });
}

async function signFor(
  context: Context,
  workspaceId: string,
  from: Mailbox,
  message: Buffer,
): Promise<Buffer> {
  const signer = new Signer({ sql: context.sql, sealer: new Sealer(await requireSecret(context)) });
  const signed = await signer.sign(workspaceId, from.domain, message);
  if (!Buffer.isBuffer(signed)) throw new CommandError(signed.text);
  return signed;
}

async function peersFor(config: Config, context: Context | null, domain: string): Promise<readonly Peer[]> {
  if (config.courier === "direct") {
    const clock = context?.clock ?? { now: Date.now, given: () => 0 };
    const onFault = (error: unknown) => complain(messageOf(error));
    const found = await receiversOf(config, domain, { sql: context?.sql ?? null, clock, onFault });
    if (Array.isArray(found)) return found;
    throw new CommandError(`No host accepts mail for ${domain}: ${(found as { text: string }).text}`);
  }
  if (config.smtpUrl === null)
    throw new ConfigError("SMTP_URL is not set. Set it to the smarthost that takes the mail.");
  return [readSmarthost(config.smtpUrl, config).peer];
}
