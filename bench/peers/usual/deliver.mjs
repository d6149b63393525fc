/**
 * The usual stack, sending: a BullMQ worker that loads the e-mail, hands it to nodemailer's pooled transport, and notes
 * what became of it. As many jobs at once as keep the pool busy.
 */
import { Worker } from "bullmq";
import { Redis } from "ioredis";
import nodemailer from "nodemailer";
import postgres from "postgres";

const CONNECTIONS = 20;
const JOBS_AT_ONCE = 100;
const POOL = 20;

const url = new URL(process.env.DATABASE_URL);
const folder = url.searchParams.get("socket");
url.searchParams.delete("socket");
const sql = postgres(url.href, { max: POOL, ...(folder && { path: `${folder}/.s.PGSQL.${url.port}` }) });
const redis = new Redis(process.env.REDIS_URL.replace("unix://", ""), { maxRetriesPerRequest: null });
const smtp = new URL(process.env.SMTP_URL);
const transport = nodemailer.createTransport({
  pool: true,
  host: smtp.hostname,
  port: Number(smtp.port),
  secure: false,
  ignoreTLS: true,
  maxConnections: CONNECTIONS,
  maxMessages: Number.POSITIVE_INFINITY,
});

async function send({ data: { id } }) {
  const [mail] = await sql`
    update usual_email set attempts = attempts + 1 where id = ${id} and status <> 'delivered'
    returning sender, recipient, subject, html, body`;
  if (!mail) return;
  await transport.sendMail({
    from: mail.sender,
    to: mail.recipient,
    subject: mail.subject,
    html: mail.html ?? undefined,
    text: mail.body ?? undefined,
    messageId: `<${id}@example.com>`,
  });
  await sql`update usual_email set status = 'delivered', delivered_at = now() where id = ${id}`;
}

const worker = new Worker("usual", send, { connection: redis, concurrency: JOBS_AT_ONCE });
await worker.waitUntilReady();
process.send({ kind: "ready" });
process.on("SIGTERM", () => process.exit(0));
process.once("disconnect", () => process.exit(0));
