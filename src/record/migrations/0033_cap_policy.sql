-- The policies of sending caps, each with a number and an author: the one with the highest is in force. Rows are only
-- ever added, so that every decision can be read beside the policy that it was made under.

create table cap_policy (
  version    int primary key,
  text       text not null,                       -- the file
  digest     text not null,                       -- of what it decides, as in cap_change.policy_version
  author     text not null,
  reason     text not null,
  applied_at timestamptz not null
);

-- Of what was granted on a day, mail that is not transactional: a pause holds it back, and a forecast has to know how much.
alter table cap_use add column used_bulk int not null default 0;

-- Told at the first attempt to come back later, for the sender's reputation or rate.
alter table tally add column throttled int not null default 0;
