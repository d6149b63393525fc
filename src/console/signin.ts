/** Signing in and out, passwords, links to a new password, and codes. */
import Type, { type Static } from "typebox";
import { parseMailbox } from "../address.ts";
import type { AttemptLimit, Attempts } from "../admission/attempts.ts";
import { DAY_MS, HOUR_MS } from "../clock.ts";
import { upwards } from "../domain/owners.ts";
import { newId } from "../ids.ts";
import {
  type AccountOfPerson,
  findAccount,
  findAccountById,
  keepReset,
  resetPassword,
  setPassword,
  setTotpSecret,
  takeTotpStep,
  workspaceToWriteFrom,
} from "../record/accounts/accounts.ts";
import { insertChange } from "../record/accounts/changes.ts";
import { endSessions, listMemberships } from "../record/accounts/sessions.ts";
import type { Sql } from "../record/db/connect.ts";
import type { SecretSealer } from "../webhooks/secret.ts";
import {
  accountCall,
  type ConsoleCall,
  type KnownPerson,
  openCall,
  type Visit,
  type VisitOf,
} from "./calls.ts";
import type { Hashing } from "./hashing.ts";
import { mailPrivately, type OwnMailParts } from "./ownmail.ts";
import { type ConsoleAnswer, type ConsoleRefusal, deny, tooManyAttempts } from "./refusal.ts";
import type { ConsoleRequest } from "./request.ts";
import { type ConsoleSession, newToken, type ProvenAccount, type Sessions, tokenHash } from "./sessions.ts";
import { newTotpSecret, stepOfCode, totpUri } from "./totp.ts";

const QUARTER_MS = HOUR_MS / 4;
const SIGN_IN_OF_ACCOUNT_FROM_NETWORK: AttemptLimit = { name: "pair", most: 10, spanMs: QUARTER_MS };
const SIGN_IN_OF_ACCOUNT: AttemptLimit = { name: "account", most: 50, spanMs: QUARTER_MS };
/** Strangers elsewhere do not lock out an owner who comes from where they signed in before. */
const KNOWN_NETWORK = { name: "known", spanMs: 90 * DAY_MS };
export const SIGN_IN_FROM_NETWORK: AttemptLimit = { name: "network", most: 100, spanMs: QUARTER_MS };
const RESET_OF_ACCOUNT: AttemptLimit = { name: "reset", most: 3, spanMs: HOUR_MS };
/** Written one way or another: what the first limit counts is the address as it was typed. */
const RESETS_MAILED: AttemptLimit = { name: "mailed", most: 3, spanMs: HOUR_MS };
export const RESET_FROM_NETWORK: AttemptLimit = { name: "resets", most: 20, spanMs: HOUR_MS };
const RESET_LIVES_MS = HOUR_MS;
const MEMBERSHIPS_MAX = 500;

export const PasswordText = Type.String({ minLength: 12, maxLength: 200 });
const GivenPassword = Type.String({ maxLength: 200 });
const EmailText = Type.String({ minLength: 3, maxLength: 254 });
const CodeText = Type.String({ maxLength: 10 });
const closed = { additionalProperties: false } as const;

const SignIn = Type.Object(
  { email: EmailText, password: GivenPassword, code: Type.Optional(CodeText) },
  closed,
);
const NewPassword = Type.Object({ password: GivenPassword, new_password: PasswordText }, closed);
const AskedReset = Type.Object({ email: EmailText }, closed);
const ConfirmedReset = Type.Object(
  { token: Type.String({ maxLength: 100 }), password: PasswordText },
  closed,
);
const TotpSecret = Type.String({ pattern: "^[A-Z2-7]{32}$" });
const TotpOn = Type.Object({ secret: TotpSecret, code: CodeText, password: GivenPassword }, closed);
const TotpOff = Type.Object({ password: GivenPassword, code: CodeText }, closed);

/** The key of the demo workspace, and the handle of that workspace: only its members see the key. */
export type DemoKey = { key: string; handle: string };

export type SignInParts = OwnMailParts & {
  sql: Sql;
  sessions: Sessions;
  attempts: Attempts;
  hashing: Hashing;
  sealer: SecretSealer;
  /** Where the console is: links in mail start with it. */
  consoleUrl(): string;
  /** Where the API is. */
  baseUrl: string;
  isDevelopment: boolean;
  demoKey(): DemoKey | null;
  onFault(error: unknown): void;
};

const WRONG = "The e-mail address or the password is wrong.";

export function signInCalls(parts: SignInParts): ConsoleCall[] {
  return [
    openCall({ method: "POST", path: "session", body: SignIn, handle: (visit) => signIn(parts, visit) }),
    accountCall({ method: "GET", path: "session", handle: (visit) => show(parts, visit) }),
    accountCall({ method: "DELETE", path: "session", handle: (visit) => signOut(parts, visit) }),
    accountCall({ method: "DELETE", path: "sessions", handle: (visit) => signOutEverywhere(parts, visit) }),
    accountCall({
      ...{ method: "POST", path: "password", body: NewPassword },
      handle: (visit) => changePassword(parts, visit),
    }),
    openCall({ method: "POST", path: "reset", body: AskedReset, handle: (visit) => askReset(parts, visit) }),
    openCall({
      ...{ method: "POST", path: "reset/confirm", body: ConfirmedReset },
      handle: (visit) => confirmReset(parts, visit),
    }),
    accountCall({ method: "POST", path: "totp/secret", changesNothing: true, handle: offerTotp }),
    accountCall({ method: "POST", path: "totp", body: TotpOn, handle: (visit) => totpOn(parts, visit) }),
    accountCall({ method: "DELETE", path: "totp", body: TotpOff, handle: (visit) => totpOff(parts, visit) }),
  ];
}

async function show(parts: SignInParts, { session }: VisitOf<KnownPerson>): Promise<ConsoleAnswer> {
  return { status: 200, body: await shownSession(parts, session) };
}

async function signIn(
  parts: SignInParts,
  { request, body, now }: Visit<Static<typeof SignIn>>,
): Promise<ConsoleAnswer> {
  const { email, password, code } = body;
  await countGuess(parts, request);
  const found = await findAccount(parts.sql, email);
  await countSignIn(parts, request, found?.email ?? email);
  const account = await checkedAccount(parts, found, password);
  if (account.totpSecret !== null) await expectCode(parts, account, code, now);
  const pair = pairOf(request, account.email);
  await parts.attempts.forget(SIGN_IN_OF_ACCOUNT_FROM_NETWORK, pair);
  await parts.attempts.remember(KNOWN_NETWORK, pair);
  return begin(parts, request, account, now);
}

/** Signed in from now on. */
export async function begin(
  parts: SignInParts,
  request: ConsoleRequest,
  account: ProvenAccount,
  now: number,
): Promise<ConsoleAnswer> {
  const begun = await parts.sessions.begin(request, account, now);
  if (!begun) throw passwordReplaced();
  const { cookie, session } = begun;
  await noteDone(parts, session, "POST session", now);
  return { status: 200, body: await shownSession(parts, session), headers: { "Set-Cookie": cookie } };
}

/** For the audit logs of all workspaces of the account: what an open call did. */
async function noteDone(
  { sql }: SignInParts,
  { accountId, email }: { accountId: string; email: string },
  action: string,
  now: number,
): Promise<void> {
  const change = { id: newId(now), accountId, email, action, subject: "", status: 200, workspaceId: null };
  await insertChange(sql, change);
}

/** A link that somebody tries. */
export async function countGuess({ attempts }: SignInParts, request: ConsoleRequest): Promise<void> {
  const wait = await attempts.count(SIGN_IN_FROM_NETWORK, request.visitor);
  if (wait !== null) throw tooManyAttempts(wait);
}

function passwordReplaced(): ConsoleRefusal {
  return deny("not_signed_in", "The password of the account was changed just now. Sign in with the new one.");
}

/** By the address as the account has it: Postgres and JavaScript take different letters for the same. */
async function countSignIn({ attempts }: SignInParts, request: ConsoleRequest, email: string): Promise<void> {
  const pair = pairOf(request, email);
  // in this order: attempts that are refused must not use up what the account has for its owner
  const wait = await attempts.count(SIGN_IN_OF_ACCOUNT_FROM_NETWORK, pair);
  if (wait !== null) throw tooManyAttempts(wait);
  if (await attempts.remembers(KNOWN_NETWORK, pair)) return;
  const waitOfAccount = await attempts.count(SIGN_IN_OF_ACCOUNT, email.toLowerCase());
  if (waitOfAccount !== null) throw tooManyAttempts(waitOfAccount);
}

function pairOf({ visitor }: ConsoleRequest, email: string): string {
  return `${email.toLowerCase()} ${visitor}`;
}

async function checkedAccount(
  { hashing }: SignInParts,
  account: AccountOfPerson | null,
  password: string,
  words: string = WRONG,
): Promise<AccountOfPerson> {
  const isRight = await hashing.isRight(password, account?.passwordHash ?? null);
  if (!account || !isRight) throw deny("invalid_credentials", words);
  return account;
}

async function expectCode(
  { sql, sealer }: SignInParts,
  { id, totpSecret }: AccountOfPerson,
  code: string | undefined,
  now: number,
): Promise<void> {
  if (code === undefined || code === "") throw codeRequired("Enter the code that your authenticator shows.");
  const [sealed] = sealer.open(nameOf(id), totpSecret as Buffer);
  const step = stepOfCode(sealed?.secret ?? "", code, now);
  if (step === null || !(await takeTotpStep(sql, id, step)))
    throw codeRequired("The code is wrong, or it was used before. Enter the one that is shown now.");
}

function codeRequired(message: string): ConsoleRefusal {
  return deny("code_required", message);
}

/** What is sealed for an account opens for no other. */
function nameOf(accountId: string) {
  return { workspaceId: accountId, id: "totp" };
}

async function shownSession(parts: SignInParts, session: ConsoleSession) {
  const { accountId, email, isOperator, hasTotp, csrf } = session;
  const memberships = await listMemberships(parts.sql, accountId, MEMBERSHIPS_MAX);
  const demo = parts.demoKey();
  return {
    object: "session",
    account: { id: accountId, email, is_operator: isOperator, has_totp: hasTotp },
    workspaces: memberships.map(({ id, name, plan, role, isSuspended }) => ({
      ...{ id, name, plan, role },
      is_suspended: isSuspended,
    })),
    csrf,
    is_operator: isOperator,
    development: parts.isDevelopment,
    base_url: parts.baseUrl,
    console_url: parts.consoleUrl(),
    demo_key: demo && memberships.some(({ handle }) => handle === demo.handle) ? demo.key : null,
  };
}

async function signOut({ sessions }: SignInParts, { session }: VisitOf<KnownPerson>): Promise<ConsoleAnswer> {
  await sessions.end(session);
  return {
    status: 200,
    body: { object: "session", deleted: true },
    headers: { "Set-Cookie": sessions.noCookie },
  };
}

async function signOutEverywhere(
  { sql, sessions }: SignInParts,
  { session }: VisitOf<KnownPerson>,
): Promise<ConsoleAnswer> {
  const ended = await endSessions(sql, session.accountId);
  return { status: 200, body: { object: "session", ended }, headers: { "Set-Cookie": sessions.noCookie } };
}

/** Whoever has a session may still not know the password: it is asked for, and attempts are counted. */
async function expectPassword(
  parts: SignInParts,
  { request, session }: VisitOf<KnownPerson>,
  password: string,
): Promise<AccountOfPerson> {
  await countGuess(parts, request);
  await countSignIn(parts, request, session.email);
  const account = await findAccountById(parts.sql, session.accountId);
  return checkedAccount(parts, account, password, "The current password is wrong.");
}

async function changePassword(
  parts: SignInParts,
  visit: VisitOf<KnownPerson, Static<typeof NewPassword>>,
): Promise<ConsoleAnswer> {
  const { password, new_password } = visit.body;
  const { id, passwordHash: former } = await expectPassword(parts, visit, password);
  const hash = await parts.hashing.hash(new_password);
  if (!(await setPassword(parts.sql, id, hash, { former, sessionKept: visit.session.hash })))
    throw passwordReplaced();
  return { status: 200, body: { object: "account", id } };
}

/**
 * Answered before anything is looked up, so that neither answer nor time says whether there is such an
 * account.
 */
async function askReset(
  parts: SignInParts,
  { request, body: { email }, now }: Visit<Static<typeof AskedReset>>,
): Promise<ConsoleAnswer> {
  const wait =
    (await parts.attempts.count(RESET_FROM_NETWORK, request.visitor)) ??
    (await parts.attempts.count(RESET_OF_ACCOUNT, email.toLowerCase()));
  if (wait !== null) throw tooManyAttempts(wait);
  void mailReset(parts, email, now).catch(parts.onFault);
  return { status: 200, body: { object: "reset" } };
}

async function mailReset(parts: SignInParts, email: string, now: number): Promise<void> {
  const account = await findAccount(parts.sql, email);
  if (!account || parseMailbox(account.email) === null) return;
  const workspace = await workspaceToWriteFrom(parts.sql, account.id, senderDomains(parts.mailFrom));
  if (!workspace) throw nobodyWrites(account.id);
  if ((await parts.attempts.count(RESETS_MAILED, account.id)) !== null) return;
  const token = newToken();
  await keepReset(parts.sql, account.id, tokenHash(token), new Date(now));
  const text = resetText(`${parts.consoleUrl()}/reset#${token}`);
  await mailPrivately(
    parts,
    workspace,
    { to: account.email, subject: "A new password for the console", text, isOfAccount: true },
    now,
  );
}

function senderDomains(mailFrom: string): string[] {
  const sender = parseMailbox(mailFrom);
  return sender ? upwards(sender.domain) : [];
}

function nobodyWrites(accountId: string): Error {
  return new Error(
    `No link to a new password can be mailed to the account ${accountId}: its workspaces are suspended or gone, no operator owns another, and none has verified the domain of MAIL_FROM. Give it a password with \`postrider account password EMAIL\`.`,
  );
}

function resetText(link: string): string {
  return `Hello,

somebody asked for a new password for your account. To choose one, open this link within an hour:

${link}

If it was not you, ignore this e-mail: your password stays as it is.
`;
}

async function confirmReset(
  parts: SignInParts,
  { request, body, now }: Visit<Static<typeof ConfirmedReset>>,
): Promise<ConsoleAnswer> {
  const { token, password } = body;
  const wait = await parts.attempts.count(RESET_FROM_NETWORK, request.visitor);
  if (wait !== null) throw tooManyAttempts(wait);
  const hash = await parts.hashing.hash(password);
  const reset = { link: tokenHash(token), since: new Date(now - RESET_LIVES_MS) };
  const accountId = await resetPassword(parts.sql, reset, hash);
  if (accountId === null)
    throw deny(
      "invalid_token",
      "This link was used before, is older than an hour, or is incomplete. Ask for another.",
    );
  const account = await findAccountById(parts.sql, accountId);
  if (account) await noteDone(parts, { accountId, email: account.email }, "POST reset/confirm", now);
  return { status: 200, body: { object: "reset" } };
}

function offerTotp({ session }: VisitOf<KnownPerson>): ConsoleAnswer {
  const secret = newTotpSecret();
  return { status: 200, body: { object: "totp", secret, uri: totpUri(secret, session.email) } };
}

async function totpOn(
  parts: SignInParts,
  visit: VisitOf<KnownPerson, Static<typeof TotpOn>>,
): Promise<ConsoleAnswer> {
  const { secret, code, password } = visit.body;
  const { session, now } = visit;
  if (session.hasTotp) throw deny("validation_error", "Codes are asked for already. Turn them off first.");
  const { id } = await expectPassword(parts, visit, password);
  const step = stepOfCode(secret, code, now);
  if (step === null || !(await takeTotpStep(parts.sql, id, step)))
    throw codeRequired(
      "The code is wrong. Check the clock of your device, and enter the code that is shown now.",
    );
  await setTotpSecret(parts.sql, id, parts.sealer.seal(nameOf(id), [{ secret, until: null }]));
  return { status: 200, body: { object: "totp", enabled: true } };
}

async function totpOff(
  parts: SignInParts,
  visit: VisitOf<KnownPerson, Static<typeof TotpOff>>,
): Promise<ConsoleAnswer> {
  const { password, code } = visit.body;
  const account = await expectPassword(parts, visit, password);
  if (account.totpSecret !== null) await expectCode(parts, account, code, visit.now);
  await setTotpSecret(parts.sql, account.id, null);
  return { status: 200, body: { object: "totp", enabled: false } };
}
