/**
 * The people of a workspace: their roles, and invitations. The link of an invitation goes by mail to the
 * address alone: who has it has shown that the address is theirs, and gets an account with it.
 */
import Type, { type Static } from "typebox";
import { identity, parseMailbox } from "../address.ts";
import type { AttemptLimit, Attempts } from "../admission/attempts.ts";
import { DAY_MS, HOUR_MS } from "../clock.ts";
import { isUuid, newId } from "../ids.ts";
import { findAccount } from "../record/accounts/accounts.ts";
import {
  acceptInvitation,
  changeMember,
  dropInvitation,
  findInvitation,
  insertInvitation,
  listInvitations,
  listMembers,
  type MemberChanged,
  type OpenInvitation,
} from "../record/accounts/members.ts";
import type { Sql } from "../record/db/connect.ts";
import { mayAppoint, PERSON_ROLES, type PersonRole } from "../rules/people.ts";
import {
  type ConsoleCall,
  EVERYONE,
  type KnownWorkspace,
  MANAGERS,
  noteChange,
  openCall,
  type Visit,
  type VisitOf,
  workspaceCall,
} from "./calls.ts";
import type { Hashing } from "./hashing.ts";
import { mailPrivately, type OwnMailParts } from "./ownmail.ts";
import { type ConsoleAnswer, deny, tooManyAttempts } from "./refusal.ts";
import type { ConsoleRequest } from "./request.ts";
import { newToken, type ProvenAccount, type Sessions, tokenHash } from "./sessions.ts";
import { PasswordText } from "./signin.ts";

const INVITATION_LIVES_MS = 7 * DAY_MS;
const INVITATIONS_MAX = 100;
/** They are mailed by the operator's sender, whose reputation all share: each counts, also one withdrawn. */
const INVITATIONS_OF_ADDRESS: AttemptLimit = { name: "invited", most: 3, spanMs: HOUR_MS };
const INVITATIONS_OF_WORKSPACE: AttemptLimit = { name: "invitations", most: 100, spanMs: DAY_MS };

const closed = { additionalProperties: false } as const;
const RoleName = Type.Enum([...PERSON_ROLES]);
const Invited = Type.Object({ email: Type.String({ maxLength: 254 }), role: RoleName }, closed);
const NewRole = Type.Object({ role: RoleName }, closed);
const Token = Type.String({ maxLength: 100 });
const Shown = Type.Object({ token: Token }, closed);
const Accepted = Type.Object({ token: Token, password: Type.Optional(PasswordText) }, closed);

export type MemberParts = OwnMailParts & {
  sql: Sql;
  sessions: Sessions;
  hashing: Hashing;
  attempts: Attempts;
  consoleUrl(): string;
  /** Mail goes to the mailbox of this machine: the link may be shown as well. */
  isDevelopment: boolean;
  /** Links are guessed no faster than passwords. */
  countGuess(request: ConsoleRequest): Promise<void>;
  /** Signs an account in, and answers with its session. */
  begin(request: ConsoleRequest, account: ProvenAccount, now: number): Promise<ConsoleAnswer>;
};

export function memberCalls(parts: MemberParts): ConsoleCall[] {
  return [
    workspaceCall({ method: "GET", path: "members", roles: EVERYONE, handle: (visit) => list(parts, visit) }),
    workspaceCall({
      ...{ method: "POST", path: "members", roles: MANAGERS, body: Invited },
      handle: (visit) => invite(parts, visit),
    }),
    workspaceCall({
      ...{ method: "PATCH", path: "members/{id}", roles: MANAGERS, body: NewRole },
      handle: (visit) => change(parts, visit, visit.body.role),
    }),
    workspaceCall({
      ...{ method: "DELETE", path: "members/{id}", roles: EVERYONE },
      handle: (visit) => change(parts, visit, null),
    }),
    workspaceCall({
      ...{ method: "DELETE", path: "invitations/{id}", roles: MANAGERS },
      handle: (visit) => withdraw(parts, visit),
    }),
    openCall({
      ...{ method: "POST", path: "invitation", body: Shown, changesNothing: true },
      handle: (visit) => show(parts, visit),
    }),
    openCall({
      ...{ method: "POST", path: "invitation/accept", body: Accepted },
      handle: (visit) => accept(parts, visit),
    }),
  ];
}

async function list({ sql }: MemberParts, visit: VisitOf<KnownWorkspace>): Promise<ConsoleAnswer> {
  const { workspace, session, now } = visit;
  const [members, invitations] = await Promise.all([
    listMembers(sql, workspace.id),
    listInvitations(sql, workspace.id, sinceOf(now)),
  ]);
  const data = members.map(({ id, email, role, hasTotp }) => ({
    ...{ object: "member", id, email, role, has_totp: hasTotp, is_you: id === session.accountId },
  }));
  const open = invitations.map(({ id, email, role, invitedBy, createdAt }) => ({
    ...{ object: "invitation", id, email, role, invited_by: invitedBy },
    ...{ created_at: createdAt.toISOString(), expires_at: expiryOf(createdAt) },
  }));
  return {
    status: 200,
    body: {
      ...{ object: "list", data, has_more: false, next_cursor: null },
      ...{ invitations: open, may_manage: MANAGERS.includes(workspace.role) },
    },
  };
}

async function invite(
  parts: MemberParts,
  visit: VisitOf<KnownWorkspace, Static<typeof Invited>>,
): Promise<ConsoleAnswer> {
  const { workspace, session, now } = visit;
  const { email, role } = visit.body;
  const mailbox = parseMailbox(email);
  if (!mailbox || mailbox.name !== null)
    throw deny("validation_error", "The `email` field must be an address: `a@x.com`.");
  if (workspace.isSuspended)
    throw deny("workspace_suspended", "This workspace is suspended: no invitation can be mailed.");
  const members = await listMembers(parts.sql, workspace.id);
  if (members.some((one) => isSameAddress(one.email, mailbox.address)))
    throw deny("validation_error", `${mailbox.address} is a member already.`);
  await countInvitation(parts, workspace.id, mailbox.address);
  const token = newToken();
  const invitation = {
    ...{ workspaceId: workspace.id, id: newId(now), email: mailbox.address, role },
    ...{ hash: tokenHash(token), invitedBy: session.accountId },
  };
  const kept = await insertInvitation(parts.sql, invitation, sinceOf(now), INVITATIONS_MAX, new Date(now));
  if (kept === "not allowed") throw onlyOwners();
  if (kept === "too many")
    throw deny("validation_error", `There are ${INVITATIONS_MAX} open invitations. Withdraw some first.`);
  const link = `${parts.consoleUrl()}/invite#${token}`;
  const text = invitationText(session.email, role, link);
  await mailPrivately(parts, workspace, { to: invitation.email, subject: "Your invitation", text }, now);
  const shown = { id: invitation.id, email: invitation.email, role };
  return {
    status: 201,
    body: {
      ...{ object: "invitation", ...shown, expires_at: expiryOf(new Date(now)) },
      link: parts.isDevelopment ? link : null,
    },
    detail: shown,
  };
}

/** The address first: who repeats one takes nothing from the others. */
async function countInvitation(
  { attempts }: MemberParts,
  workspaceId: string,
  address: string,
): Promise<void> {
  const waitOfAddress = await attempts.count(INVITATIONS_OF_ADDRESS, `${workspaceId} ${identity(address)}`);
  if (waitOfAddress !== null)
    throw tooManyAttempts(waitOfAddress, `${address} was invited three times within an hour.`);
  const wait = await attempts.count(INVITATIONS_OF_WORKSPACE, workspaceId);
  if (wait !== null) throw tooManyAttempts(wait, "This workspace has sent 100 invitations within a day.");
}

function invitationText(inviter: string, role: PersonRole, link: string): string {
  return `Hello,

${inviter} invites you as ${role} to the console of their e-mail workspace. To join, open this link within seven days:

${link}

If you do not know who that is, ignore this e-mail.
`;
}

/** `role` null: removes the member. Everybody may leave. */
async function change(
  { sql }: MemberParts,
  { workspace, session, params }: VisitOf<KnownWorkspace>,
  role: PersonRole | null,
): Promise<ConsoleAnswer> {
  const id = (params[0] ?? "").toLowerCase();
  const changed = isUuid(id) ? await changeMember(sql, workspace.id, id, role, session.accountId) : "unknown";
  expectChanged(changed);
  if (role === null) return { status: 200, body: { object: "member", id, deleted: true } };
  return { status: 200, body: { object: "member", id, role }, detail: { role } };
}

async function withdraw(
  { sql }: MemberParts,
  { workspace, params }: VisitOf<KnownWorkspace>,
): Promise<ConsoleAnswer> {
  const id = (params[0] ?? "").toLowerCase();
  const mayTouch = (role: PersonRole) => mayAppoint(workspace.role, role);
  expectChanged(isUuid(id) ? await dropInvitation(sql, workspace.id, id, mayTouch) : "unknown");
  return { status: 200, body: { object: "invitation", id, deleted: true } };
}

function expectChanged(changed: MemberChanged): void {
  switch (changed) {
    case "changed":
      return;
    case "unknown":
      throw deny("not_found", "There is nobody with this id in this workspace.");
    case "last owner":
      throw deny("validation_error", "A workspace keeps an owner. Make somebody else owner first.");
    case "not allowed":
      throw onlyOwners();
  }
}

async function show(
  parts: MemberParts,
  { request, body, now }: Visit<Static<typeof Shown>>,
): Promise<ConsoleAnswer> {
  await parts.countGuess(request);
  const invitation = await found(parts, body.token, now);
  const { email, role, workspaceName } = invitation;
  const account = await findAccount(parts.sql, email);
  return {
    status: 200,
    body: {
      ...{ object: "invitation", email, role },
      ...{ workspace: { name: workspaceName }, has_account: account !== null },
    },
  };
}

/** Who has an account proves it by being signed in: the link alone lets nobody act as somebody else. */
async function accept(
  parts: MemberParts,
  { request, body, now }: Visit<Static<typeof Accepted>>,
): Promise<ConsoleAnswer> {
  await parts.countGuess(request);
  const { token, password } = body;
  const invitation = await found(parts, token, now);
  const account = await findAccount(parts.sql, invitation.email);
  if (account) await expectSignedInAs(parts, request, account.id, now);
  const made = account ? null : await newAccount(parts, invitation, password, now);
  const { id, passwordHash } = (made ?? account) as ProvenAccount;
  const person = { accountId: id, email: invitation.email };
  const { workspaceId } = invitation;
  const change = { workspaceId, action: "POST invitation/accept", subject: invitation.id };
  const answered = await noteChange(parts.sql, person, change, now);
  const isTaken = await acceptInvitation(parts.sql, invitation, made ?? { id }, new Date(now));
  await answered(isTaken ? 200 : usedUp().answer.status, { role: invitation.role });
  if (!isTaken) throw usedUp();
  return parts.begin(request, { id, passwordHash }, now);
}

async function newAccount(
  { hashing }: MemberParts,
  { email }: OpenInvitation,
  password: string | undefined,
  now: number,
): Promise<{ id: string; email: string; passwordHash: string }> {
  if (password === undefined) throw deny("missing_required_field", "Missing `password` field.");
  return { id: newId(now), email, passwordHash: await hashing.hash(password) };
}

async function expectSignedInAs(
  { sessions }: MemberParts,
  request: ConsoleRequest,
  accountId: string,
  now: number,
): Promise<void> {
  const session = await sessions.find(request, now);
  if (session?.accountId === accountId) return;
  if (session)
    throw deny("forbidden", "This invitation is for another address. Sign out, and sign in with that one.");
  throw deny("not_signed_in", "This address has an account. Sign in first, then open the link again.");
}

async function found({ sql }: MemberParts, token: string, now: number): Promise<OpenInvitation> {
  const invitation = await findInvitation(sql, tokenHash(token), sinceOf(now));
  if (!invitation) throw usedUp();
  return invitation;
}

function usedUp() {
  return deny(
    "invalid_token",
    "This invitation was used, was withdrawn, or is older than seven days. Ask for another.",
  );
}

function onlyOwners() {
  return deny("forbidden", "Only owners can make or change owners.");
}

function isSameAddress(one: string, other: string): boolean {
  return identity(one) === identity(other);
}

function sinceOf(now: number): Date {
  return new Date(now - INVITATION_LIVES_MS);
}

function expiryOf(createdAt: Date): string {
  return new Date(createdAt.getTime() + INVITATION_LIVES_MS).toISOString();
}
