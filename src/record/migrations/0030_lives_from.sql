-- From when an e-mail lives that was tried, and then waited for a destination that was suspended; null for all others.
alter table email add column lives_from timestamptz;
