import { useState } from "preact/hooks";
import { call } from "../call.ts";
import { useGet } from "../hooks.ts";
import { Badge, Card, Refusal, Screen, Skeleton, Time } from "../parts/bits.tsx";
import { Choice, Confirm, Dialog, Do, Form, Text, textOf } from "../parts/form.tsx";
import { isIn, type RowFilter, ShortList } from "../parts/list.tsx";
import type { Column } from "../parts/table.tsx";
import { useConsole, useMayManage } from "../session.ts";
import { capital } from "../words.ts";

type Member = { id: string; email: string; role: string; has_totp: boolean; is_you: boolean };
type Invitation = { id: string; email: string; role: string; created_at: string; expires_at: string };
type Members = { data: Member[]; invitations: Invitation[]; may_manage: boolean };
type Link = { email: string; link: string | null };

const ON_ITS_WAY = "The invitation is on its way";

const ROLES = [
  { value: "member", name: "Member", may: "Sends mail, and changes templates, contacts and automations." },
  {
    value: "admin",
    name: "Admin",
    may: "Also manages API keys, webhooks and members, and erases contacts.",
  },
  { value: "owner", name: "Owner", may: "Also makes and removes other owners." },
];

function rolesFor(isOwner: boolean): typeof ROLES {
  return ROLES.filter(({ value }) => isOwner || value !== "owner");
}

const FILTERS: readonly RowFilter<Member>[] = [
  { name: "email", label: "Address", holds: ({ email }, value) => isIn(value, email) },
  {
    name: "role",
    label: "With role",
    options: ROLES.map(({ value }) => value),
    holds: ({ role }, value) => role === value,
  },
];

const INVITED_FILTERS: readonly RowFilter<Invitation>[] = [
  { name: "invited", label: "Invited address", holds: ({ email }, value) => isIn(value, email) },
];

export function MembersScreen() {
  const { data, error, reload } = useGet<Members>("members");
  const { workspace } = useConsole();
  const mayManage = useMayManage(data);
  const [isInviting, setInviting] = useState(false);
  const [leaving, setLeaving] = useState<Member | null>(null);
  const isOwner = workspace?.role === "owner";
  return (
    <Screen
      title="Members"
      intro="Who may look at this workspace, and change it."
      actions={
        <button
          type="button"
          class="primary"
          disabled={!data || !mayManage}
          onClick={() => setInviting(true)}
        >
          Invite
        </button>
      }
    >
      <Refusal error={error} />
      {!data && !error && <Skeleton />}
      {data && !mayManage && <p class="banner">Only owners and admins invite and remove members.</p>}
      {data && (
        <ShortList
          label="members"
          filters={FILTERS}
          rows={data.data}
          keyOf={({ id }) => id}
          columns={columnsFor(mayManage, isOwner, setLeaving, reload)}
        />
      )}
      {data && data.invitations.length > 0 && (
        <Card title="Invited">
          <ShortList
            label="invitations"
            filters={INVITED_FILTERS}
            rows={data.invitations}
            keyOf={({ id }) => id}
            columns={invitedColumns(mayManage, reload)}
          />
        </Card>
      )}
      {isInviting && <Invite isOwner={isOwner} onInvited={reload} onClose={() => setInviting(false)} />}
      {leaving && (
        <Confirm
          title={leaving.is_you ? "Leave this workspace?" : `Remove ${leaving.email}?`}
          button={leaving.is_you ? "Leave" : "Remove"}
          onConfirm={() => call("DELETE", `members/${leaving.id}`).then(reload)}
          onClose={() => setLeaving(null)}
        >
          {leaving.is_you
            ? "You lose access at once, until somebody invites you again."
            : "They lose access with their next click."}{" "}
          API keys keep working, whoever created them: revoke those that must not, under API keys.
        </Confirm>
      )}
    </Screen>
  );
}

function invitedColumns(mayManage: boolean, reload: () => Promise<unknown>): Column<Invitation>[] {
  return [
    { name: "Invited", cell: ({ email }) => email, csv: ({ email }) => email },
    { name: "Role", cell: ({ role }) => capital(role), csv: ({ role }) => role },
    {
      name: "Link expires",
      wide: true,
      cell: ({ expires_at }) => <Time at={expires_at} />,
      csv: ({ expires_at }) => expires_at,
    },
    ...(mayManage
      ? [
          {
            name: "Actions",
            unnamed: true,
            numeric: true,
            cell: ({ id }: Invitation) => (
              <Do name="Withdraw" act={() => call("DELETE", `invitations/${id}`).then(reload)} />
            ),
          },
        ]
      : []),
  ];
}

function columnsFor(
  mayManage: boolean,
  isOwner: boolean,
  leave: (member: Member) => void,
  reload: () => Promise<unknown>,
): Column<Member>[] {
  return [
    {
      name: "Address",
      cell: ({ email, is_you }) => (
        <>
          {email} {is_you && <span class="muted">(you)</span>}
        </>
      ),
      csv: ({ email }) => email,
    },
    {
      name: "Role",
      cell: (member) =>
        mayManage && !member.is_you && (isOwner || member.role !== "owner") ? (
          <RoleOf member={member} isOwner={isOwner} onDone={reload} />
        ) : (
          capital(member.role)
        ),
      csv: ({ role }) => role,
    },
    {
      name: "Second factor",
      wide: true,
      cell: ({ has_totp }) => <Badge state={has_totp ? "on" : "off"} tone={has_totp ? "good" : "quiet"} />,
      csv: ({ has_totp }) => (has_totp ? "on" : "off"),
    },
    {
      name: "Actions",
      unnamed: true,
      numeric: true,
      cell: (member) =>
        (mayManage || member.is_you) && (
          <button
            type="button"
            class="small"
            aria-label={member.is_you ? undefined : `Remove ${member.email}`}
            onClick={() => leave(member)}
          >
            {member.is_you ? "Leave" : "Remove"}
          </button>
        ),
    },
  ];
}

function RoleOf({
  member,
  isOwner,
  onDone,
}: {
  member: Member;
  isOwner: boolean;
  onDone(): Promise<unknown>;
}) {
  const [error, setError] = useState<string | null>(null);
  const change = (role: string) =>
    call("PATCH", `members/${member.id}`, { role }).then(
      () => setError(null),
      (refusal: Error) => setError(refusal.message),
    );
  return (
    <>
      <select
        aria-label={`Role of ${member.email}`}
        value={member.role}
        onChange={({ currentTarget }) => void change(currentTarget.value).then(onDone)}
      >
        {rolesFor(isOwner).map(({ value, name }) => (
          <option key={value} value={value}>
            {name}
          </option>
        ))}
      </select>
      <Refusal error={error} />
    </>
  );
}

function Invite({
  isOwner,
  onInvited,
  onClose,
}: {
  isOwner: boolean;
  onInvited(): Promise<unknown>;
  onClose(): void;
}) {
  const { showOnce } = useConsole();
  const [invited, setInvited] = useState<string | null>(null);
  const [chosen, choose] = useState("member");
  if (invited !== null)
    return (
      // another dialog: it takes the keyboard, which the form had
      <Dialog key="invited" title={ON_ITS_WAY} onClose={onClose}>
        <p>A link was mailed to {invited}. It works for seven days.</p>
        <button type="button" class="primary" onClick={onClose}>
          Done
        </button>
      </Dialog>
    );
  const invite = async (fields: FormData) => {
    const asked = { email: textOf(fields, "email"), role: textOf(fields, "role") };
    const { email, link } = await call<Link>("POST", "members", asked);
    if (link === null) setInvited(email);
    else {
      onClose();
      showOnce({
        ...{ title: ON_ITS_WAY, label: "Link", noun: "link", secret: link },
        words: `It was mailed to ${email}, and works for seven days. Mail of this engine goes to the mailbox.`,
        elsewhere: "It is only in the mail then.",
      });
    }
    await onInvited();
  };
  return (
    <Dialog title="Invite" onClose={onClose}>
      <Form button="Send the invitation" onSubmit={invite}>
        <Text label="Email" name="email" type="email" />
        <Choice
          label="Role"
          name="role"
          options={rolesFor(isOwner)}
          value={chosen}
          onChange={choose}
          hint={ROLES.find(({ value }) => value === chosen)?.may}
        />
      </Form>
    </Dialog>
  );
}
