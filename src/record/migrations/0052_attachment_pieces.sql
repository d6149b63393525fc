-- What is larger than a piece is kept in pieces, each a row and a transaction of its own, so that no burst of megabytes
-- stands in the log before the commits of others. A piece has the hash of the whole with its number behind it; the whole
-- has no content. A version before this one cannot read that: such mail waits there, and leaves with this one.
alter table attachment alter column content drop not null;
