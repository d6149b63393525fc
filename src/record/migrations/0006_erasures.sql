-- A day of e-mails may be millions: an erasure keeps its place within the day, so that every step is small.
alter table erasure add column next_id uuid;      -- the day's e-mails before this one are done; null: none yet
