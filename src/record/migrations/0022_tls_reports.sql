-- How connections to receivers were secured, by the day, for reports to their domains (RFC 8460). `result` is empty where
-- nothing was wrong.
create table tls_sessions (
  day       int not null,                         -- since 1970
  domain    text not null,                        -- of the recipients
  policy    text not null,                        -- sts, tlsa, no-policy-found
  result    text not null,
  mx_host   text not null,
  mx_ip     text not null,
  source_ip text not null,
  sessions  bigint not null,
  primary key (day, domain, policy, result, mx_host, mx_ip, source_ip)
);

-- The report of one day to one domain, until it has been sent to everybody who asked for it.
create table tls_report_out (
  day     int not null,
  domain  text not null,
  due_at  timestamptz,                            -- null: over
  tries   smallint not null default 0,
  sent_to text[] not null default '{}',
  result  text,
  primary key (day, domain)
);
create index tls_report_out_due on tls_report_out (due_at) where due_at is not null;

-- Reports of others about our own domains, as they were read. Whoever wrote one says so themselves.
create table tls_report_in (
  id           uuid primary key,
  domain       text not null,
  organization text not null,
  report_id    text not null,
  begins_at    timestamptz not null,
  ends_at      timestamptz not null,
  policy       text not null,
  succeeded    bigint not null,
  failed       bigint not null,
  failures     jsonb not null,                    -- of each kind: result, host, sessions, why
  received_at  timestamptz not null
);
create unique index tls_report_in_once on tls_report_in (domain, organization, report_id, policy, begins_at);
create index tls_report_in_age on tls_report_in (received_at);
