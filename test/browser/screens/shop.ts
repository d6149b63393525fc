/**
 * A shop that has used the engine for a month: enough of everything that each screen has something to show.
 */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { DEFAULT_POLICY, startState } from "../../../src/capacity/policy.ts";
import type { ReadyFile } from "../../../src/embedded/home.ts";
import { newId } from "../../../src/ids.ts";
import { connectRecord, type Sql } from "../../../src/record/db/connect.ts";
import { pause } from "../../rig/pause.ts";
import { Browser, type SessionBody } from "../../rig/people.ts";

const DAY_MS = 86_400_000;
const DAYS = 45;
const LOOK_MS = 200;
const PEOPLE = [
  ["Ada", "Whitcombe", "ada.whitcombe@northmail.example"],
  ["Bruno", "Keller", "bruno@keller-sport.example"],
  ["Chiara", "Conti", "chiara.conti@posta.example"],
  ["Dmitri", "Orlov", "d.orlov@northmail.example"],
  ["Elif", "Demir", "elif@demir.example"],
  ["Farah", "Nasser", "farah.nasser@post.oakfield.example"],
  ["Greta", "Lind", "greta@lind.example"],
  ["Hugo", "Marchetti", "hugo.m@posta.example"],
  ["Imke", "de Vries", "imke@devries.example"],
  ["Jonas", "Pemberton", "jonas@mail.pemberton.example"],
  ["Keiko", "Tanaka", "keiko.tanaka@northmail.example"],
  ["Liam", "Byrne", "liam@byrne.example"],
  ["Mara", "Popescu", "mara.popescu@oldmail.example"],
  ["Nils", "Aalto", "nils@aalto.example"],
  ["Olga", "Brandt", "olga.brandt@oldmail.example"],
  ["Pavel", "Novak", "pavel@novak.example"],
] as const;
const FROM = "Harbour & Pine <orders@harbourpine.example>";

export type Shop = { end(): void; places: Record<string, string> };

export async function openShop(ready: ReadyFile): Promise<Shop> {
  const { database_url, workspace_id, audience_id } = ready;
  const call = caller(ready);
  const hooks = await startHooks();
  const sql = connectRecord(database_url as string, "setup", 20_000);
  try {
    await pastDays(sql, workspace_id);
    await grownCaps(sql, workspace_id);
    const invitation = await people(ready);
    const domain = await call<Made>("POST", "/domains", { name: "harbourpine.example" });
    const webhook = await call<Made>("POST", "/webhooks", {
      endpoint: `http://127.0.0.1:${portOf(hooks)}/hooks/mail`,
    });
    const audience = audience_id;
    for (const [n, person] of PEOPLE.entries()) await addContact(call, audience, person, n);
    const template = await templates(call);
    const automation = await automations(call, audience);
    for (const [, , email] of PEOPLE.slice(0, 7))
      await call("POST", "/events", {
        audience_id: audience,
        email,
        name: "order.shipped",
        properties: { total: 40 + email.length },
      });
    const emails = await mail(call, template);
    await suppressions(call);
    return {
      places: {
        domain: domain.id,
        webhook: webhook.id,
        audience,
        template,
        automation,
        invitation,
        ...emails,
      },
      end: () => hooks.close(),
    };
  } finally {
    await sql.end({ timeout: 1 });
  }
}

type Made = { id: string };
type Call = <T>(method: string, path: string, body?: unknown) => Promise<T>;

function caller({ base_url, api_key }: ReadyFile): Call {
  return async <T>(method: string, path: string, body?: unknown) => {
    for (;;) {
      const response = await fetch(`${base_url}/api/v1${path}`, {
        method,
        headers: { authorization: `Bearer ${api_key}`, "content-type": "application/json" },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      if (response.ok) return (await response.json()) as T;
      const refusal = await response.text();
      if (response.status !== 429) throw new Error(`${method} ${path}: ${response.status} ${refusal}`);
      await pause(1_000 * Number(response.headers.get("retry-after") ?? 1));
    }
  };
}

/** A week has a shape, and the shop grows. */
async function pastDays(sql: Sql, workspaceId: string): Promise<void> {
  const today = Math.floor(Date.now() / DAY_MS);
  for (let back = DAYS; back > 0; back--) {
    const day = today - back;
    const weekday = [0.8, 1.05, 1.1, 1.1, 1.15, 1, 0.7][day % 7] as number;
    const tried = Math.round((1_400 + 45 * (DAYS - back)) * weekday * (0.94 + ((day * 37) % 13) / 100));
    const hard = Math.round(tried * (back === 12 ? 0.021 : 0.005));
    const [soft, blocked, deferred] = [0.004, 0.001, 0.028].map((share) => Math.round(tried * share)) as [
      number,
      number,
      number,
    ];
    const complained = day % 3 === 0 ? 1 : 0;
    const delivered = tried - hard - soft - blocked;
    await sql`
      insert into tally (workspace_id, day, worker, attempted, delivered, deferred, hard_bounced, soft_bounced, blocked, complained, fbl_delivered)
      values (${workspaceId}, ${day}, 'shop', ${tried}, ${delivered}, ${deferred}, ${hard}, ${soft}, ${blocked}, ${complained}, ${Math.round(delivered / 3)})`;
    await sql`insert into cap_use (workspace_id, day, used, delayed, accepted)
      values (${workspaceId}, ${day}, ${tried}, 0, ${tried + 3})`;
  }
}

/** The demo workspace has caps that nobody meets. The shop has those that grew with it. */
async function grownCaps(sql: Sql, workspaceId: string): Promise<void> {
  const now = Date.now();
  const [capDay, capHour] = [5_600, 1_120];
  const today = new Date(now).toISOString().slice(0, 10);
  const state = {
    ...startState(DEFAULT_POLICY, "pro"),
    capDay,
    capHour,
    evaluatedOn: today,
    since: today,
    healthyDays: 9,
  };
  await sql`update workspace set limits = limits - 'cap_hour' - 'cap_day', version = version + 1 where id = ${workspaceId}`;
  await sql`update ledger set cap_day = ${capDay}, cap_hour = ${capHour} where workspace_id = ${workspaceId}`;
  await sql`
    insert into capacity (workspace_id, state, policy_version, evaluated_on) values (${workspaceId}, ${sql.json(state)}, '0', ${today})
    on conflict (workspace_id) do update set state = excluded.state, evaluated_on = excluded.evaluated_on`;
  const steps = [2_050, 2_870, 4_000, 5_600];
  for (const [n, after] of steps.entries()) {
    const at = new Date(now - (steps.length - n) * 4 * DAY_MS);
    const before = steps[n - 1] ?? 1_460;
    const reason = `Grown by 1.4: ${Math.round(before * 0.81)} of ${before} recipients were used, and bounces are at 0.5%.`;
    await sql`
      insert into cap_change (workspace_id, id, at, day_before, day_after, hour_before, hour_after, level, reason, policy_version, changed_by)
      values (${workspaceId}, ${newId(at.getTime())}, ${at}, ${before}, ${after}, ${before / 5}, ${after / 5}, 'normal', ${reason}, '0', 'policy')`;
  }
}

/** What an owner does in the console: keys for the programs of the shop, and colleagues. The link of one. */
async function people({
  console_url,
  console_email,
  console_password,
  workspace_id,
}: ReadyFile): Promise<string> {
  const browser = new Browser(new URL(console_url as string).origin);
  const { body } = await browser.post<SessionBody>("session", {
    email: console_email,
    password: console_password,
  });
  browser.csrf = body.csrf;
  browser.workspace = workspace_id;
  const keys = [
    { name: "Shop backend", preset: "sending" },
    { name: "Newsletter form", preset: "audience" },
    { name: "Warehouse", permissions: ["emails:send", "templates:read"] },
  ];
  for (const key of keys) await browser.post("keys", key);
  const old = await browser.post<Made>("keys", { name: "Old backend", preset: "full" });
  await browser.call("DELETE", `keys/${old.body.id}`);
  await browser.post("members", { email: "tove@harbourpine.example", role: "admin" });
  const support = { email: "support@harbourpine.example", role: "member" };
  const { pathname, hash } = new URL((await browser.post<{ link: string }>("members", support)).body.link);
  return pathname.replace("/console", "") + hash;
}

async function addContact(
  call: Call,
  audience: string,
  [first_name, last_name, email]: (typeof PEOPLE)[number],
  n: number,
): Promise<void> {
  await call("POST", `/audiences/${audience}/contacts`, {
    ...{ email, first_name, last_name },
    tags: ["customer", ...(n % 4 === 0 ? ["vip"] : []), ...(n % 5 === 2 ? ["newsletter"] : [])],
    properties: { orders: (n * 7) % 11, city: ["Bergen", "Torino", "Gent", "Porto"][n % 4] },
    consent: {
      source: "checkout",
      captured_at: new Date(Date.now() - (n + 2) * DAY_MS).toISOString(),
      text: "Keep me posted about my orders",
    },
  });
  if (n % 9 === 8) await call("PATCH", `/audiences/${audience}/contacts/${email}`, { unsubscribed: true });
}

const ORDER_HTML = `<div style="max-width:560px;margin:0 auto;font-family:Georgia,serif;color:#21302b">
  <div style="padding:24px;background:#21483c;color:#fff;font-size:22px">Harbour &amp; Pine</div>
  <div style="padding:24px;border:1px solid #dfe5e2">
    <h1 style="font-size:20px">Thank you, {{first_name|friend}}</h1>
    <p>Your order <b>{{order_number}}</b> is packed. It leaves our workshop tomorrow morning.</p>
    <table style="width:100%;border-collapse:collapse">
      <tr><td style="padding:8px 0;border-bottom:1px solid #dfe5e2">Pine desk lamp</td><td style="border-bottom:1px solid #dfe5e2;text-align:right">€ 68.00</td></tr>
      <tr><td style="padding:8px 0;border-bottom:1px solid #dfe5e2">Wool blanket, moss</td><td style="border-bottom:1px solid #dfe5e2;text-align:right">€ 94.00</td></tr>
      <tr><td style="padding:8px 0"><b>Total</b></td><td style="text-align:right"><b>{{total|€ 162.00}}</b></td></tr>
    </table>
    <p><a style="color:#21483c" href="https://harbourpine.example/orders">See your order</a></p>
  </div>
</div>
`;

async function templates(call: Call): Promise<string> {
  const order = { name: "Order confirmation", subject: "Your order {{order_number}}", from: FROM };
  await call("PUT", "/templates/password-reset", {
    name: "Password reset",
    subject: "Choose a new password",
    from: FROM,
    html: "<p>{{link}}</p>",
  });
  await call("PUT", "/templates/shipping-notice", {
    name: "Shipping notice",
    subject: "It is on its way",
    from: FROM,
    html: "<p>On its way.</p>",
  });
  await call("PUT", "/templates/order-confirmation", {
    ...order,
    html: ORDER_HTML.replace("tomorrow morning", "soon"),
  });
  return (await call<Made>("PUT", "/templates/order-confirmation", { ...order, html: ORDER_HTML })).id;
}

async function automations(call: Call, audience_id: string): Promise<string> {
  const say = (subject: string) => ({
    send: { from: FROM, subject, html: "<p>Hello {{first_name|friend}}</p>" },
  });
  const { id } = await call<Made>("POST", "/automations", {
    ...{ name: "After the parcel", audience_id, event: "order.shipped", entry: "every", status: "enabled" },
    steps: [
      say("Your parcel is on its way, {{first_name|friend}}"),
      { tag: { add: ["shipped"] } },
      {
        split: [
          {
            if: [{ field: "contact.tags", contains: "vip" }],
            // biome-ignore lint/suspicious/noThenProperty: the word of the document
            then: [{ wait: "2d" }, say("A small thank-you from us"), { tag: { add: ["thanked"] } }],
          },
          { else: [{ wait: "5d" }, say("How do you like it?")] },
        ],
      },
    ],
  });
  await call("POST", "/automations", {
    ...{
      name: "Abandoned basket",
      audience_id,
      event: "basket.left",
      entry: { cooldown: "7d" },
      status: "disabled",
    },
    steps: [{ wait: "3h" }, say("Did you forget something?")],
  });
  return id;
}

async function mail(call: Call, template: string): Promise<Record<string, string>> {
  const lines = [
    "Your order 10{n}",
    "Your parcel is on its way",
    "Choose a new password",
    "Your receipt 10{n}",
  ];
  const sent = PEOPLE.flatMap(([first_name, , to], n) =>
    [0, 1].map((more) => {
      const subject = (lines[(n + more) % lines.length] as string).replace("{n}", String(482 + n));
      const html = ORDER_HTML.replaceAll(/\{\{first_name.*?\}\}/g, first_name)
        .replaceAll("{{order_number}}", `10${482 + n}`)
        .replaceAll(/\{\{total.*?\}\}/g, "€ 162.00");
      return {
        from: FROM,
        to,
        subject,
        html,
        text: "Thank you for your order.",
        tags: [{ name: "kind", value: "order" }],
      };
    }),
  );
  const { data } = await call<{ data: Made[] }>("POST", "/emails/batch", sent);
  const idTo = (part: string) => data[sent.findIndex(({ to }) => to.includes(part))]?.id ?? "";
  const at = new Date(Date.now() + 2 * DAY_MS).toISOString();
  const scheduled = await call<Made>("POST", "/emails", {
    from: FROM,
    to: "liam@byrne.example",
    subject: "Your warranty ends next week",
    html: "<p>Soon.</p>",
    scheduled_at: at,
  });
  await call("POST", "/emails", {
    from: FROM,
    to: "elif@demir.example",
    template: { id: template, variables: { first_name: "Elif", order_number: "10491" } },
  });
  await untilTried(call, idTo("pemberton"));
  await call("POST", "/feedback", [
    {
      email_id: idTo("nils@"),
      recipient: "nils@aalto.example",
      type: "complaint",
      detail: "abuse report of northmail.example",
    },
  ]);
  return {
    deferred: idTo("pemberton"),
    delivered: idTo("ada."),
    bounced: idTo("mara."),
    scheduled: scheduled.id,
  };
}

async function untilTried(call: Call, id: string): Promise<void> {
  while ((await call<{ status: string }>("GET", `/emails/${id}`)).status === "accepted") await pause(LOOK_MS);
}

async function suppressions(call: Call): Promise<void> {
  await call("POST", "/suppressions", {
    email: "warehouse@harbourpine.example",
    evidence: "asked by telephone on Monday",
  });
}

/** An endpoint that takes most events. */
async function startHooks(): Promise<Server> {
  let count = 0;
  const server = createServer((request, response) => {
    request.resume();
    count++;
    response
      .writeHead(count % 11 === 5 ? 503 : 204)
      .end(count % 11 === 5 ? "The order service is restarting." : undefined);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return server;
}

function portOf(server: Server): number {
  return (server.address() as AddressInfo).port;
}
