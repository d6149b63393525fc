/** What is sent: half a kilobyte of HTML, alone or a hundred together. */
const HTML = `<p>${'Hello "you", your order has been sent. '.repeat(13)}</p>`.slice(0, 512);

export type Mail = { from: string; to: string; subject: string; html: string };

export const SENDER_DOMAIN = "example.com";

export function mail(n: number, domain = "example.net"): Mail {
  return {
    from: `Acme <orders@${SENDER_DOMAIN}>`,
    to: `user${n}@${domain}`,
    subject: `Order ${n}`,
    html: HTML,
  };
}

export const BATCH_EMAILS = 100;
export const BATCH = JSON.stringify(Array.from({ length: BATCH_EMAILS }, (_, n) => mail(n)));
export const ONE = JSON.stringify(mail(1));
