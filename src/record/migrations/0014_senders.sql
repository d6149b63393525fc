-- Who may write as whom. A workspace names the domains it writes from; DNS shows which of them are its own. A name alone
-- keeps nobody else from the domain: only one workspace at a time has it verified.

create table domain (
  workspace_id  uuid not null references workspace on delete cascade,
  domain        text not null,                    -- A-labels, in lower case
  token         text not null,                    -- what the TXT record of ownership says
  created_at    timestamptz not null,
  verified_at   timestamptz,
  check_at      timestamptz,                      -- when DNS is asked again whether it still holds
  missing_since timestamptz,                      -- DNS has shown no proof since then
  primary key (workspace_id, domain)
);
create unique index domain_owner on domain (domain) where verified_at is not null;
create index domain_check on domain (check_at) where verified_at is not null;

-- Whose key signs already has shown it: where several sign for one domain, the first. DNS is asked again soon.
insert into domain (workspace_id, domain, token, created_at)
select workspace_id, domain, replace(gen_random_uuid()::text, '-', ''), min(created_at)
from domain_key group by workspace_id, domain;

update domain d set verified_at = now(), check_at = now()
from (
  select distinct on (domain) domain, workspace_id from domain_key where state = 'signing'
  order by domain, created_at, workspace_id
) as first
where d.domain = first.domain and d.workspace_id = first.workspace_id;
