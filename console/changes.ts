/** What somebody did, in plain words, by the call that the audit log has of it. */

const OF_ACCOUNTS: Record<string, string> = {
  "POST session": "signed in",
  "DELETE session": "signed out",
  "DELETE sessions": "signed out everywhere",
  "POST password": "changed the password",
  "POST reset": "asked for a new password by mail",
  "POST reset/confirm": "chose a new password by mail",
  "POST totp": "turned the second factor on",
  "DELETE totp": "turned the second factor off",
};

const OF_WORKSPACES: Record<string, string> = {
  "POST keys": "created a key",
  "DELETE keys/{id}": "revoked a key",
  "POST members": "invited somebody",
  "PATCH members/{id}": "changed a role",
  "DELETE members/{id}": "removed a member, or left",
  "DELETE invitations/{id}": "withdrew an invitation",
  "POST invitation/accept": "joined",
  "POST queue/retry": "retried deferred mail",
  "POST queue/cancel": "canceled deferred mail",
  "POST emails/{id}/again": "sent an e-mail again",
  "POST emails/{id}/retry": "retried an e-mail",
  "POST templates/{id}/restore": "restored a template",
  "POST contacts/import": "imported contacts",
};

const OF_OPERATORS: Record<string, string> = {
  "POST operator/workspaces/{id}/suspend": "suspended a workspace",
  "POST operator/workspaces/{id}/resume": "resumed a workspace",
  "POST operator/find": "looked for an e-mail",
  "POST operator/queue/suspend": "suspended a destination",
  "POST operator/queue/resume": "resumed a destination",
  "POST operator/queue/retry": "retried deferred mail of all workspaces",
  "POST operator/queue/bounce": "bounced deferred mail of all workspaces",
  "POST operator/caps/{id}": "overrode the caps of a workspace",
};

const OF_AUDIENCES: Record<string, string> = {
  "POST /audiences": "created an audience",
  "PATCH /audiences/{id}": "renamed an audience",
  "DELETE /audiences/{id}": "deleted an audience",
  "POST /audiences/{id}/contacts": "added a contact",
  "PATCH /audiences/{id}/contacts/{email_or_id}": "changed a contact",
  "DELETE /audiences/{id}/contacts/{email_or_id}": "archived or erased a contact",
  "POST /audiences/{id}/contacts/{email_or_id}/tags": "changed the tags of a contact",
};

const OF_API: Record<string, string> = {
  ...OF_AUDIENCES,
  ...Object.fromEntries(
    Object.entries(OF_AUDIENCES).map(([call, words]) => [call.replace("/audiences", "/segments"), words]),
  ),
  "POST /emails": "sent an e-mail",
  "POST /emails/batch": "sent several e-mails",
  "PATCH /emails/{id}": "rescheduled an e-mail",
  "POST /emails/{id}/cancel": "canceled an e-mail",
  "POST /emails/{id}/share": "made a public link to an e-mail",
  "POST /contacts": "added a contact",
  "PATCH /contacts/{email_or_id}": "changed a contact",
  "DELETE /contacts/{email_or_id}": "archived or erased a contact",
  "POST /contacts/{email_or_id}/tags": "changed the tags of a contact",
  "POST /contacts/{email_or_id}/segments/{id}": "added a contact to an audience",
  "DELETE /contacts/{email_or_id}/segments/{id}": "removed a contact from an audience",
  "POST /contacts/imports": "imported contacts",
  "POST /contact-properties": "defined a property of contacts",
  "PATCH /contact-properties/{id_or_key}": "changed a property of contacts",
  "DELETE /contact-properties/{id_or_key}": "deleted a property of contacts",
  "POST /events": "tracked an event",
  "POST /events/send": "tracked an event",
  "PATCH /events/{id_or_name}": "changed the description of an event",
  "DELETE /events/{id_or_name}": "deleted the description of an event",
  "POST /automations": "created an automation",
  "PATCH /automations/{id}": "changed an automation",
  "DELETE /automations/{id}": "deleted an automation",
  "POST /automations/{id}/duplicate": "copied an automation",
  "POST /automations/{id}/stop": "stopped the runs of an automation",
  "POST /domains": "added a domain",
  "POST /domains/{id}/verify": "checked the DNS of a domain",
  "POST /domains/claim": "claimed a domain",
  "POST /domains/{id}/claim/verify": "checked the claim to a domain",
  "PATCH /domains/{id}": "changed a domain",
  "DELETE /domains/{id}": "removed a domain",
  "POST /suppressions": "suppressed an address",
  "DELETE /suppressions/{id_or_email}": "undid a suppression",
  "POST /suppressions/batch/add": "suppressed several addresses",
  "POST /suppressions/batch/remove": "undid several suppressions",
  "POST /feedback": "reported bounces or complaints",
  "POST /webhooks": "added a webhook",
  "PATCH /webhooks/{id}": "changed a webhook",
  "DELETE /webhooks/{id}": "removed a webhook",
  "POST /webhooks/{id}/signing-secret/rotate": "made a new signing secret",
  "POST /webhooks/{id}/test": "sent a test event",
  "POST /webhooks/{id}/replay": "replayed events",
  "POST /webhooks/{id}/events/{event_id}/replay": "replayed an event",
  "POST /templates": "created a template",
  "PUT /templates/{external_id}": "saved a template",
  "PATCH /templates/{id_or_external_id}": "changed a template",
  "DELETE /templates/{id_or_external_id}": "deleted a template",
  "POST /templates/{id_or_external_id}/publish": "published a template",
  "POST /templates/{id_or_external_id}/duplicate": "copied a template",
};

const CHANGES: ReadonlyMap<string, string> = new Map(
  Object.entries({ ...OF_ACCOUNTS, ...OF_WORKSPACES, ...OF_OPERATORS, ...OF_API }),
);

/** A version that went before may have had calls that there are no more: they are shown as they were made. */
export function changeInWords(action: string): string {
  return CHANGES.get(action) ?? action;
}
