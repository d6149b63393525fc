/** Which screen is at which path, and what the navigation shows of it. */
import type { ComponentChildren, FunctionComponent } from "preact";
import { Empty, Screen } from "./parts/bits.tsx";
import { AudienceScreen, AudiencesScreen } from "./screens/audiences.tsx";
import { AuditScreen } from "./screens/audit.tsx";
import { AutomationScreen, AutomationsScreen } from "./screens/automations.tsx";
import { CapsScreen } from "./screens/caps.tsx";
import { ContactScreen } from "./screens/contact.tsx";
import { DomainScreen, DomainsScreen } from "./screens/domains.tsx";
import { EmailScreen } from "./screens/email.tsx";
import { EmailsScreen } from "./screens/emails.tsx";
import { ImportScreen } from "./screens/import.tsx";
import { KeysScreen } from "./screens/keys.tsx";
import { MailboxScreen, MailScreen } from "./screens/mailbox.tsx";
import { MembersScreen } from "./screens/members.tsx";
import { OperatorScreen } from "./screens/operator.tsx";
import { OverviewScreen } from "./screens/overview.tsx";
import { ProfileScreen } from "./screens/profile.tsx";
import { QueueScreen } from "./screens/queue.tsx";
import { RunScreen } from "./screens/run.tsx";
import { SimulatorScreen } from "./screens/simulator.tsx";
import { SuppressionsScreen } from "./screens/suppressions.tsx";
import { TemplateScreen, TemplatesScreen } from "./screens/templates.tsx";
import { UsageScreen } from "./screens/usage.tsx";
import { WebhookScreen, WebhooksScreen } from "./screens/webhooks.tsx";

export type NavItem = { path: string; name: string; only?: "development" | "operator" };

export const NAV: readonly { name: string; items: readonly NavItem[] }[] = [
  {
    name: "Sending",
    items: [
      { path: "/emails", name: "Emails" },
      { path: "/overview", name: "Overview" },
      { path: "/queue", name: "Queue" },
      { path: "/caps", name: "Caps" },
      { path: "/suppressions", name: "Suppressions" },
      { path: "/mailbox", name: "Mailbox", only: "development" },
    ],
  },
  {
    name: "People and content",
    items: [
      { path: "/audiences", name: "Audiences" },
      { path: "/templates", name: "Templates" },
      { path: "/automations", name: "Automations" },
    ],
  },
  {
    name: "Workspace",
    items: [
      { path: "/domains", name: "Domains" },
      { path: "/webhooks", name: "Webhooks" },
      { path: "/keys", name: "API keys" },
      { path: "/members", name: "Members" },
      { path: "/usage", name: "Usage" },
      { path: "/audit", name: "Audit log" },
      { path: "/operator", name: "Operator", only: "operator" },
    ],
  },
];

type Params = { id: string; other: string };
const SCREENS: readonly [string, FunctionComponent<Params>][] = [
  ["/emails", EmailsScreen],
  ["/emails/:", EmailScreen],
  ["/overview", OverviewScreen],
  ["/queue", QueueScreen],
  ["/caps", CapsScreen],
  ["/caps/simulator", SimulatorScreen],
  ["/suppressions", SuppressionsScreen],
  ["/mailbox", MailboxScreen],
  ["/mailbox/:", MailScreen],
  ["/audiences", AudiencesScreen],
  ["/audiences/:", AudienceScreen],
  ["/audiences/:/import", ImportScreen],
  ["/audiences/:/contacts/:", ContactScreen],
  ["/templates", TemplatesScreen],
  ["/templates/:", TemplateScreen],
  ["/automations", AutomationsScreen],
  ["/automations/:", AutomationScreen],
  ["/automations/:/runs/:", RunScreen],
  ["/domains", DomainsScreen],
  ["/domains/:", DomainScreen],
  ["/webhooks", WebhooksScreen],
  ["/webhooks/:", WebhookScreen],
  ["/keys", KeysScreen],
  ["/members", MembersScreen],
  ["/usage", UsageScreen],
  ["/audit", AuditScreen],
  ["/operator", OperatorScreen],
  ["/profile", ProfileScreen],
];

/** Of the person or of the installation: these work for somebody who belongs to no workspace, too. */
const WITHOUT_WORKSPACE = ["/operator", "/profile", "/mailbox"];

export function needsWorkspace(path: string): boolean {
  return !WITHOUT_WORKSPACE.some((one) => path === one || path.startsWith(`${one}/`));
}

/**
 * A literal path is found before one with parameters. These stay as they are encoded, since they go into the
 * paths of calls: in a link that somebody sends, `..%2F` must not lead to another call.
 */
export function screenAt(path: string): ComponentChildren {
  const wanted = path === "" ? "/emails" : path;
  const literal = SCREENS.find(([pattern]) => pattern === wanted);
  const [pattern, Found] = literal ?? SCREENS.find(([one]) => matches(one, wanted)) ?? [];
  if (!Found || !pattern) return <NoScreen />;
  const segments = wanted.split("/");
  const [id = "", other = ""] = pattern
    .split("/")
    .flatMap((part, n) => (part === ":" ? [segments[n] ?? ""] : []));
  return <Found key={wanted} id={id} other={other} />;
}

function matches(pattern: string, path: string): boolean {
  const [parts, segments] = [pattern.split("/"), path.split("/")];
  return parts.length === segments.length && parts.every((part, n) => part === ":" || part === segments[n]);
}

function NoScreen() {
  return (
    <Screen title="There is no such page">
      <Empty title="The link may be old or incomplete">
        <p>
          <a href="/console/emails">Go to the e-mails</a>
        </p>
      </Empty>
    </Screen>
  );
}
