/** What `npm start` says when it is ready: where everything is, and the first mail to paste. */
import type { ReadyInfo } from "./home.ts";

const MAIL = {
  from: "Demo <demo@example.com>",
  to: "you@example.com",
  subject: "Hello",
  html: "<p>It works.</p>",
};

const ANY_SENDER = `Any sender address is accepted (REQUIRE_VERIFIED_DOMAINS=false), for development. In production a workspace
may send only from domains that it has verified in DNS.`;
const VERIFIED_SENDERS =
  "A workspace may send only from domains that it has verified in DNS: see `postrider help domain add`.";

export function banner(place: ReadyInfo, folder: string, writesAsAny: boolean): string {
  const curl = (path: string, body: unknown) =>
    [
      `  curl ${place.base_url}/api/v1${path} \\`,
      `    -H 'Authorization: Bearer ${place.api_key}' \\`,
      "    -H 'Content-Type: application/json' \\",
      `    -d '${JSON.stringify(body)}'`,
    ].join("\n");
  const places = [
    ["API", `${place.base_url}/api/v1`],
    ["key", place.api_key],
    ["mailbox", mailboxOf(place)],
    ...(place.submission_url === null
      ? []
      : [["SMTP", `${place.submission_url} (STARTTLS, any user name, the key as password)`]]),
    ...(place.console_url === null ? [] : [["console", consoleOf(place)]]),
    ["data", `${folder} (logs in ${folder}/logs)`],
  ];
  return `
Postrider is ready.

${places.map(([name = "", where]) => `  ${name.padEnd(8)} ${where}`).join("\n")}

The demo workspace is on the pro plan, with high sending caps.
${writesAsAny ? ANY_SENDER : VERIFIED_SENDERS}

Send one e-mail:

${curl("/emails", MAIL)}

Send a batch:

${curl("/emails/batch", [MAIL, { ...MAIL, to: "me@example.com" }])}

Ctrl-C stops everything.
`;
}

function consoleOf({ console_url, console_email, console_password }: ReadyInfo): string {
  const password = console_password === null ? "" : `, password ${console_password}`;
  return `${console_url} (${console_email}${password})`;
}

function mailboxOf({ mailbox_url, smtp_url }: ReadyInfo): string {
  if (mailbox_url !== null) return `${mailbox_url}/messages`;
  return smtp_url === null
    ? "none: mail goes to the MX hosts of its recipients"
    : "none: mail goes to SMTP_URL";
}
