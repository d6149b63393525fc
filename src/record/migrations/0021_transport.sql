-- MTA-STS policies of receivers (RFC 8461). A policy that says `enforce` holds until it expires, whatever becomes of its
-- record in DNS and of its host.
create table sts_policy (
  domain      text primary key,
  policy_id   text not null,                      -- of the TXT record under which it was found
  mode        text not null,                      -- enforce, testing, none
  mx          text[] not null,
  max_age_s   int not null,
  fetched_at  timestamptz not null,
  expires_at  timestamptz not null,
  refresh_at  timestamptz not null,
  used_at     timestamptz not null                -- to the day: what nobody uses is not refreshed
);
create index sts_policy_refresh on sts_policy (refresh_at);
create index sts_policy_expiry on sts_policy (expires_at);
