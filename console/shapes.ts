/** What the API answers, as far as the screens read it. */
export type EmailItem = {
  id: string;
  message_id: string;
  from: string;
  to: string[];
  cc: string[];
  bcc: string[];
  reply_to: string[];
  subject: string | null;
  status: string;
  last_event: string;
  created_at: string;
  scheduled_at: string | null;
  sent_at: string | null;
  delivered_at: string | null;
  attempts: number;
  waiting_for: string | null;
  next_attempt_at: string | null;
  reason: string | null;
};

export type EmailEvent = { type: string; at: string; recipient?: string; detail?: string };

export type Email = EmailItem & {
  html: string | null;
  text: string | null;
  headers: Record<string, string> | null;
  stream: string;
  tags: { name: string; value: string }[];
  events: EmailEvent[];
  delivery_attempts: Record<string, unknown>[];
};

export type AudienceItem = { id: string; name: string; created_at: string };

export type Contact = {
  id: string;
  email: string;
  first_name: string | null;
  last_name: string | null;
  created_at: string;
  updated_at: string;
  unsubscribed: boolean;
  status: "pending" | "subscribed" | "unsubscribed";
  tags: string[];
  properties: Record<string, unknown>;
};

export type ListOf<T> = { data: T[]; has_more: boolean; next_cursor: string | null };

export type Used = { used: number; limit: number | null };
