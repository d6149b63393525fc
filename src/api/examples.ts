/**
 * A body for each endpoint that takes one, as somebody would send it: for the OpenAPI document and the
 * reference.
 */
import { EXAMPLE_ID, EXAMPLE_TIME } from "./shapes.ts";

const EMAIL = {
  from: "Acme <orders@example.com>",
  to: ["ada@example.net"],
  subject: "Your order 1042",
  html: "<p>Thank you, Ada.</p>",
  tags: [{ name: "kind", value: "order" }],
};
const TEMPLATE = {
  name: "Order confirmation",
  subject: "Your order {{order_number}}",
  from: "Acme <orders@example.com>",
  html: "<p>Thank you, {{first_name|friend}}.</p>",
};
const CONTACT = {
  email: "ada@example.net",
  first_name: "Ada",
  tags: ["customer"],
  properties: { city: "Bergen" },
  consent: { source: "checkout", captured_at: EXAMPLE_TIME, text: "Keep me posted about my orders" },
};
const CHANGED_CONTACT = { first_name: "Ada", unsubscribed: true };
const TAGS = { add: ["vip"], remove: ["new"] };
const AUDIENCE = { name: "Customers" };
const AUTOMATION = {
  name: "Welcome",
  audience_id: EXAMPLE_ID,
  event: "signed.up",
  entry: "once",
  steps: [
    { wait: "2h" },
    {
      send: {
        from: "Acme <hi@example.com>",
        subject: "Welcome",
        html: "<p>Hello, {{first_name|friend}}</p>",
      },
    },
  ],
};

export const BODY_EXAMPLES: Readonly<Record<string, unknown>> = {
  "POST /emails": EMAIL,
  "POST /emails/batch": [EMAIL, { ...EMAIL, to: ["grace@example.net"], subject: "Your order 1043" }],
  "PATCH /emails/{id}": { scheduled_at: "in 2 hours" },
  "POST /emails/{id}/share": { expires_in: "2 hours" },
  "POST /domains": { name: "example.com" },
  "PATCH /domains/{id}": { tls: "opportunistic" },
  "POST /domains/claim": { name: "example.com" },
  "POST /templates": TEMPLATE,
  "PUT /templates/{id_or_external_id}": TEMPLATE,
  "PATCH /templates/{id_or_external_id}": { subject: "Order {{order_number}} is on its way" },
  "POST /audiences": AUDIENCE,
  "PATCH /audiences/{id}": { name: "Regular customers" },
  "POST /segments": AUDIENCE,
  "PATCH /segments/{id}": { name: "Regular customers" },
  "POST /audiences/{id}/contacts": CONTACT,
  "PATCH /audiences/{id}/contacts/{email_or_id}": CHANGED_CONTACT,
  "POST /audiences/{id}/contacts/{email_or_id}/tags": TAGS,
  "POST /segments/{id}/contacts": CONTACT,
  "PATCH /segments/{id}/contacts/{email_or_id}": CHANGED_CONTACT,
  "POST /segments/{id}/contacts/{email_or_id}/tags": TAGS,
  "POST /contacts": { ...CONTACT, audience_id: EXAMPLE_ID },
  "PATCH /contacts/{email_or_id}": CHANGED_CONTACT,
  "POST /contacts/{email_or_id}/tags": TAGS,
  "POST /contact-properties": { key: "city", type: "string", fallback_value: "your city" },
  "PATCH /contact-properties/{id_or_key}": { fallback_value: "your town" },
  "POST /events": {
    audience_id: EXAMPLE_ID,
    email: "ada@example.net",
    name: "signed.up",
    properties: { plan: "pro" },
  },
  "POST /events/send": { event: "signed.up", email: "ada@example.net", payload: { plan: "pro" } },
  "PATCH /events/{id_or_name}": { schema: { plan: "string", seats: "number" } },
  "POST /automations": AUTOMATION,
  "PATCH /automations/{id}": { status: "disabled" },
  "POST /suppressions": { email: "ada@example.net", evidence: "asked by telephone on Monday" },
  "POST /suppressions/batch/add": {
    emails: ["ada@example.net", "grace@example.net"],
    evidence: "a list of ours",
  },
  "POST /suppressions/batch/remove": { emails: ["ada@example.net", "grace@example.net"] },
  "POST /feedback": [
    {
      email_id: EXAMPLE_ID,
      recipient: "ada@example.net",
      type: "bounce",
      category: "hard",
      detail: "550 5.1.1 no such user",
    },
  ],
  "POST /webhooks": {
    endpoint: "https://example.com/hooks/mail",
    events: ["email.delivered", "email.bounced"],
  },
  "PATCH /webhooks/{id}": { status: "disabled" },
  "POST /webhooks/{id}/replay": { failed: true },
};
